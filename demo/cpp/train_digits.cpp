// Trains the network of train_digits.py with ampcast's C++ API, from the file that it exports. No Python in the program.

#include <ampcast/ampcast.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr int64_t kGrowthInterval = 50; // steps
constexpr int64_t kSpikeStep = 125; // here the fp16 run multiplies one loss by kSpike, on purpose
constexpr double kSpike = 1 << 20;
constexpr int64_t kWarmUp = 10; // untimed steps before each run

using Task = c10::Dict<at::IValue, at::IValue>;
using Result = c10::Dict<std::string, at::Tensor>;
using Results = c10::Dict<std::string, Result>;

at::Tensor tensor(const Task& task, const std::string& name) {
  return task.at(name).toTensor();
}

Task read_task(const char* path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path, "; train_digits.py writes it");
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return torch::pickle_load(bytes).toGenericDict();
}

void write_results(const char* path, const Results& results) {
  const std::vector<char> bytes = torch::pickle_save(results);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(file, "cannot write ", path);
}

torch::nn::Sequential make_model(const Task& task) {
  torch::nn::Sequential model(
      torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 256), torch::nn::ReLU(),
      torch::nn::Linear(256, 10));
  const at::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    parameter.value().copy_(tensor(task, parameter.key()));
  }
  return model;
}

/// A model, what trains it, and the dtype of its autocast regions; float32 casts nothing.
struct Trainer {
  Trainer(at::ScalarType region_dtype, const Task& task)
      : dtype(region_dtype),
        model(make_model(task)),
        optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        scaler(at::kCPU, {.growth_interval = kGrowthInterval, .enabled = dtype == at::kHalf}) {}

  at::Tensor forward(const at::Tensor& images) {
    const ampcast::AutocastGuard autocast(at::kCPU, dtype);
    return model->forward(images);
  }

  at::Tensor step(const at::Tensor& images, const at::Tensor& labels, double spike) {
    optimizer.zero_grad();
    // The loss is computed in float32: a float16 one could not hold the scale.
    const at::Tensor loss = torch::nn::functional::cross_entropy(forward(images).to(at::kFloat), labels);
    scaler.scale(loss * spike).backward();
    scaler.step(optimizer);
    scaler.update();
    return loss.detach();
  }

  at::ScalarType dtype;
  torch::nn::Sequential model;
  torch::optim::SGD optimizer;
  ampcast::GradScaler scaler;
};

/// The share of right answers on the images that were not trained on.
at::Tensor accuracy(Trainer& trainer, const Task& task) {
  const at::NoGradGuard no_grad;
  const at::Tensor answers = trainer.forward(tensor(task, "test_images")).argmax(1);
  return answers.eq(tensor(task, "test_labels")).to(at::kFloat).mean();
}

Result train(at::ScalarType dtype, const Task& task, const at::Tensor& batches) {
  Trainer trainer(dtype, task);
  const at::Tensor images = tensor(task, "train_images");
  const at::Tensor labels = tensor(task, "train_labels");
  at::Tensor losses = torch::empty({batches.size(0)});
  at::Tensor scales = torch::full({batches.size(0) + 1}, trainer.scaler.get_scale());
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < batches.size(0); ++step) {
    const at::Tensor batch = batches[step];
    const double spike = trainer.scaler.is_enabled() && step == kSpikeStep ? kSpike : 1.0;
    losses[step] = trainer.step(images.index_select(0, batch), labels.index_select(0, batch), spike);
    scales[step + 1] = trainer.scaler.get_scale();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Result result;
  result.insert("losses", losses);
  result.insert("scales", scales);
  result.insert("accuracy", accuracy(trainer, task));
  result.insert("seconds", torch::tensor(seconds.count()));
  return result;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TASK RESULTS\n", argv[0]);
    return 2;
  }
  at::set_num_threads(1); // fastest for a network this small
  const Task task = read_task(argv[1]);
  const at::Tensor batches = tensor(task, "batches");
  Results results;
  for (const auto& [name, dtype] :
       {std::pair("fp32", at::kFloat), {"ampcast bf16", at::kBFloat16}, {"ampcast fp16", at::kHalf}}) {
    train(dtype, task, batches.slice(0, 0, kWarmUp));
    results.insert(name, train(dtype, task, batches));
    std::printf("C++: %s trained\n", name);
  }
  write_results(argv[2], results);
  return 0;
}
