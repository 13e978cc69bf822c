#include <ampcast/ampcast.h>

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <torch/optim/sgd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "catch2_compat.h"

namespace {

// Runs this program's hidden test case "one training step" and returns its output.
std::string run_training_step(const std::string& environment) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = environment + " '" + program + "' 'one training step'";
  FILE* output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), output) != nullptr) {
    text += buffer.data();
  }
  INFO(text);
  REQUIRE(pclose(output) == 0);
  return text;
}

// The recorder's lines: how often each range began, for those that ended as often.
std::map<std::string, int> complete_ranges(const std::string& output) {
  std::map<std::string, int> ranges;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string tag;
    std::string name;
    int begun = 0;
    int ended = 0;
    if (words >> tag >> name >> begun >> ended && tag == "nvtx" && begun == ended) {
      ranges[name] = begun;
    }
  }
  return ranges;
}

} // namespace

TEST_CASE("one training step", "[.]") {
  at::Tensor weight = at::ones({4, 4}).requires_grad_();
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.1));
  ampcast::GradScaler scaler(at::kCPU);
  at::Tensor loss;
  {
    ampcast::AutocastGuard autocast(at::kCPU, at::kBFloat16);
    loss = at::mm(at::ones({4, 4}), weight).sum();
  }
  scaler.scale(loss).backward();
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
}

TEST_CASE("profilers see a range for each region, scale, unscale, step and update") {
  const auto ranges = complete_ranges(run_training_step("NVTX_INJECTION64_PATH='" AMPCAST_NVTX_RECORDER "'"));
  for (const char* name : {"autocast", "scale", "unscale_", "step", "update"}) {
    CAPTURE(name);
    CHECK(ranges.count(std::string("ampcast::") + name) == 1);
  }
  CHECK(ranges.at("ampcast::autocast") == 1);
  CHECK(ranges.at("ampcast::step") == 1);
}
