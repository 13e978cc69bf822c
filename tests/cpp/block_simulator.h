#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

/// Runs the bodies of CUDA kernels on the host, block after block. All threads of a block take part in every barrier and
/// shuffle; blocks know one dimension, and one double of shared memory a warp.
namespace block_simulator {

inline constexpr uint32_t kWarp = 32;

/// Threads of a block that wait for each other at barriers.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Runs `body(thread)` for each of `threads` threads, a multiple of a warp.
  /// \throws std::logic_error if they wait at different barriers, where the scheduler can tell.
  virtual void run(uint32_t threads, const std::function<void(uint32_t)>& body) = 0;
  virtual void sync_block(uint32_t thread) = 0;
  virtual void sync_warp(uint32_t thread) = 0;
};

/// Fibers, in an order that `seed` shuffles anew after each barrier: fast, repeatable, and finds barriers that a part of the
/// threads misses.
std::unique_ptr<Scheduler> make_fibers(uint32_t seed);

/// One thread of the operating system each, for sanitizers, which see memory that threads share without a barrier.
std::unique_ptr<Scheduler> make_threads();

/// Threads under a sanitizer, else fibers.
std::unique_ptr<Scheduler> make_scheduler(uint32_t seed);

/// What the threads of a block share.
struct SharedState {
  Scheduler& scheduler;
  uint32_t threads;
  uint32_t block;
  uint32_t blocks;
  std::vector<double> shared;
  std::vector<double> slots; // a thread each, for shuffles and votes
};

/// The `Block` that a thread of a kernel's body sees.
class SimulatedBlock {
 public:
  SimulatedBlock(SharedState& state, uint32_t thread) : state_(&state), thread_(thread) {}

  uint32_t thread() const {
    return thread_;
  }
  uint32_t threads() const {
    return state_->threads;
  }
  uint32_t index() const {
    return state_->block;
  }
  uint32_t blocks() const {
    return state_->blocks;
  }
  double* shared() const {
    return state_->shared.data();
  }
  void sync() const {
    state_->scheduler.sync_block(thread_);
  }
  bool any(bool value) const;
  double shuffle_down(double value, uint32_t offset) const;
  void store(float* address, float value) const;

 private:
  SharedState* state_;
  uint32_t thread_;
};

struct Grid {
  uint32_t blocks;
  uint32_t threads;
};

/// Runs `body(SimulatedBlock)` for each thread of each block of `grid`.
void launch(Scheduler& scheduler, Grid grid, const std::function<void(const SimulatedBlock&)>& body);

} // namespace block_simulator
