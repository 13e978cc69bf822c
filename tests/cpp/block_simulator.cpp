#include "block_simulator.h"

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <limits>
#include <numeric>
#include <string>
#include <thread>

namespace block_simulator {
namespace {

class Fibers : public Scheduler {
 public:
  explicit Fibers(uint32_t seed) : random_(seed) {}

  void run(uint32_t threads, const std::function<void(uint32_t)>& body) override {
    body_ = &body;
    states_.assign(threads, State::kReady);
    order_.resize(threads);
    std::iota(order_.begin(), order_.end(), 0U);
    start_all();
    while (std::count(states_.begin(), states_.end(), State::kDone) != static_cast<int64_t>(threads)) {
      std::shuffle(order_.begin(), order_.end(), random_);
      if (!run_ready() && !open_barriers()) {
        throw std::logic_error(
            "divergent barrier: " + std::to_string(std::count(states_.begin(), states_.end(), State::kAtBlock)) +
            " of " + std::to_string(threads) + " threads wait for their block");
      }
    }
  }
  void sync_block(uint32_t thread) override {
    wait(thread, State::kAtBlock);
  }
  void sync_warp(uint32_t thread) override {
    wait(thread, State::kAtWarp);
  }

 private:
  enum class State : uint8_t { kReady, kAtBlock, kAtWarp, kDone };
  static constexpr size_t kStack = size_t{1} << 16;

  void start_all() {
    contexts_.resize(states_.size());
    stacks_.resize(states_.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      stacks_[i].resize(kStack);
      getcontext(&contexts_[i]);
      contexts_[i].uc_stack.ss_sp = stacks_[i].data();
      contexts_[i].uc_stack.ss_size = kStack;
      contexts_[i].uc_link = &scheduler_;
      makecontext(&contexts_[i], reinterpret_cast<void (*)()>(&Fibers::enter), 0);
    }
  }

  static void enter() {
    Fibers& self = *running_;
    const uint32_t thread = self.current_;
    (*self.body_)(thread);
    self.states_[thread] = State::kDone;
  }

  // Runs each thread that is ready until its next barrier; whether there was one.
  bool run_ready() {
    running_ = this;
    bool ran = false;
    for (const uint32_t thread : order_) {
      if (states_[thread] == State::kReady) {
        ran = true;
        current_ = thread;
        swapcontext(&scheduler_, &contexts_[thread]);
      }
    }
    return ran;
  }

  // Lets go on who waits at a barrier that all have reached; whether there was one.
  bool open_barriers() {
    bool opened = open(0, states_.size(), State::kAtBlock);
    for (size_t warp = 0; warp < states_.size(); warp += kWarp) {
      opened = open(warp, warp + kWarp, State::kAtWarp) || opened;
    }
    return opened;
  }

  bool open(size_t begin, size_t end, State barrier) {
    const auto first = states_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = states_.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::any_of(first, last, [barrier](State state) { return state != barrier; })) {
      return false;
    }
    std::fill(first, last, State::kReady);
    return true;
  }

  void wait(uint32_t thread, State barrier) {
    states_[thread] = barrier;
    swapcontext(&contexts_[thread], &scheduler_);
  }

  static inline Fibers* running_ = nullptr;

  std::mt19937 random_;
  const std::function<void(uint32_t)>* body_ = nullptr;
  std::vector<State> states_;
  std::vector<uint32_t> order_;
  std::vector<ucontext_t> contexts_;
  std::vector<std::vector<char>> stacks_;
  ucontext_t scheduler_{};
  uint32_t current_ = 0;
};

class OsThreads : public Scheduler {
 public:
  void run(uint32_t threads, const std::function<void(uint32_t)>& body) override {
    block_ = std::make_unique<std::barrier<>>(threads);
    warps_.clear();
    for (uint32_t warp = 0; warp < threads; warp += kWarp) {
      warps_.push_back(std::make_unique<std::barrier<>>(kWarp));
    }
    std::vector<std::thread> running;
    for (uint32_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&body, thread] { body(thread); });
    }
    for (std::thread& thread : running) {
      thread.join();
    }
  }
  void sync_block(uint32_t /*thread*/) override {
    block_->arrive_and_wait();
  }
  void sync_warp(uint32_t thread) override {
    warps_[thread / kWarp]->arrive_and_wait();
  }

 private:
  std::unique_ptr<std::barrier<>> block_;
  std::vector<std::unique_ptr<std::barrier<>>> warps_;
};

} // namespace

std::unique_ptr<Scheduler> make_fibers(uint32_t seed) {
  return std::make_unique<Fibers>(seed);
}

std::unique_ptr<Scheduler> make_threads() {
  return std::make_unique<OsThreads>();
}

std::unique_ptr<Scheduler> make_scheduler([[maybe_unused]] uint32_t seed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return make_threads();
#else
  return make_fibers(seed);
#endif
}

bool SimulatedBlock::any(bool value) const {
  state_->slots[thread_] = value ? 1 : 0;
  sync();
  const bool found = std::any_of(state_->slots.begin(), state_->slots.end(), [](double slot) { return slot != 0; });
  sync();
  return found;
}

double SimulatedBlock::shuffle_down(double value, uint32_t offset) const {
  state_->slots[thread_] = value;
  state_->scheduler.sync_warp(thread_);
  const double received = thread_ % kWarp + offset < kWarp ? state_->slots[thread_ + offset] : value;
  state_->scheduler.sync_warp(thread_);
  return received;
}

void SimulatedBlock::store(float* address, float value) const {
  std::atomic_ref<float>(*address).store(value, std::memory_order_relaxed);
}

void launch(Scheduler& scheduler, Grid grid, const std::function<void(const SimulatedBlock&)>& body) {
  constexpr double kNothing = std::numeric_limits<double>::signaling_NaN(); // what no thread has written
  for (uint32_t block = 0; block < grid.blocks; ++block) {
    SharedState state{
        scheduler,
        grid.threads,
        block,
        grid.blocks,
        std::vector<double>(grid.threads / kWarp, kNothing),
        std::vector<double>(grid.threads, kNothing)};
    scheduler.run(grid.threads, [&](uint32_t thread) { body(SimulatedBlock(state, thread)); });
  }
}

} // namespace block_simulator
