// Trains a small model with an autocast region and a gradient scaler; fails unless it learns.

#include <ampcast/ampcast.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

struct Data {
  at::Tensor inputs;
  at::Tensor labels;
};

Data two_classes(int64_t rows) {
  const at::Tensor inputs = torch::randn({rows, 8});
  return {inputs, inputs.sum(1).gt(0).to(at::kLong)};
}

float train_step(
    torch::nn::Sequential& model,
    torch::optim::Optimizer& optimizer,
    ampcast::GradScaler& scaler,
    const Data& data) {
  optimizer.zero_grad();
  at::Tensor loss;
  {
    ampcast::AutocastGuard autocast(at::kCPU, at::kBFloat16);
    const at::Tensor logits = model->forward(data.inputs);
    TORCH_CHECK(logits.scalar_type() == at::kBFloat16, "the model ran in ", logits.scalar_type(), ", not in bfloat16");
    loss = torch::nn::functional::cross_entropy(logits.to(at::kFloat), data.labels);
  }
  scaler.scale(loss).backward();
  TORCH_CHECK(scaler.step(optimizer), "the step was skipped");
  scaler.update();
  return loss.item<float>();
}

} // namespace

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 2));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5));
  ampcast::GradScaler scaler(at::kCPU);
  const Data data = two_classes(256);

  const float first = train_step(model, optimizer, scaler, data);
  float last = first;
  for (int step = 1; step < 50; ++step) {
    last = train_step(model, optimizer, scaler, data);
  }
  std::printf("loss %.3f -> %.3f, scale %g\n", first, last, scaler.get_scale());
  return last < 0.3F * first ? 0 : 1;
}
