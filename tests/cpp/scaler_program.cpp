// A LibTorch program that the Python tests run: it exchanges scaler states and trajectories with Python through files.
//
//   scaler_program reload IN OUT    loads the state dict in IN into a scaler, writes that scaler's state dict to OUT
//   scaler_program train IN OUT     IN: {"state": state dict, "gradients": [steps, n] tensor, already scaled}; trains n
//                                   weights by SGD and writes {"scales": [steps], "taken": [steps], "weights": [steps, n]}

#include <ampcast/ampcast.h>

#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

at::IValue read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return torch::pickle_load(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}

void write(const std::string& path, const at::IValue& value) {
  const std::vector<char> bytes = torch::pickle_save(value);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

at::IValue reload(const at::IValue& state) {
  ampcast::GradScaler scaler(at::kCPU);
  scaler.load_state_dict(state);
  return scaler.state_dict();
}

at::IValue train(const at::IValue& input) {
  const c10::impl::GenericDict entries = input.toGenericDict();
  const at::Tensor gradients = entries.at("gradients").toTensor();
  ampcast::GradScaler scaler(at::kCPU);
  scaler.load_state_dict(entries.at("state"));
  at::Tensor weight = torch::zeros({gradients.size(1)}, torch::requires_grad());
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.1).momentum(0.9));

  std::vector<at::Tensor> scales, taken, weights;
  for (const at::Tensor& gradient : gradients.unbind()) {
    scaler.scale(torch::ones({}));
    weight.mutable_grad() = gradient.clone();
    taken.push_back(torch::tensor(scaler.step(optimizer)));
    scaler.update();
    scales.push_back(torch::tensor(scaler.get_scale(), torch::kFloat));
    weights.push_back(weight.detach().clone());
  }
  c10::Dict<std::string, at::Tensor> result;
  result.insert("scales", torch::stack(scales));
  result.insert("taken", torch::stack(taken));
  result.insert("weights", torch::stack(weights));
  return result;
}

} // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 3 || (arguments[0] != "reload" && arguments[0] != "train")) {
    std::cerr << "usage: scaler_program reload|train IN OUT\n";
    return 2;
  }
  const at::IValue input = read(arguments[1]);
  write(arguments[2], arguments[0] == "reload" ? reload(input) : train(input));
  return 0;
}
