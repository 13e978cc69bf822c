#include "block_simulator.h"

#include <c10/util/Exception.h>

#include "catch2_compat.h"

#include <numeric>

using namespace block_simulator;

namespace {

// The sum over a block in the way kernels take it; without `synced` a barrier is missing.
double sum_of(uint32_t threads, uint32_t seed, bool synced) {
  std::vector<double> shared(threads);
  double sum = 0;
  const auto fibers = make_fibers(seed);
  launch(*fibers, {1, threads}, [&](const SimulatedBlock& block) {
    shared[block.thread()] = block.thread();
    if (synced) {
      block.sync();
    }
    if (block.thread() == 0) {
      sum = std::accumulate(shared.begin(), shared.end(), 0.0);
    }
  });
  return sum;
}

} // namespace

TEST_CASE("a simulated block shuffles within warps and votes across them") {
  for (const uint32_t seed : {1U, 2U, 3U}) {
    std::vector<double> shuffled(96);
    std::vector<int> votes(96);
    const auto fibers = make_fibers(seed);
    launch(*fibers, {1, 96}, [&](const SimulatedBlock& block) {
      shuffled[block.thread()] = block.shuffle_down(block.thread(), 16);
      votes[block.thread()] =
          static_cast<int>(block.any(block.thread() == 70)) + 2 * static_cast<int>(block.any(false));
    });
    for (uint32_t thread = 0; thread < 96; ++thread) {
      CHECK(shuffled[thread] == (thread % kWarp < 16 ? thread + 16 : thread));
      CHECK(votes[thread] == 1);
    }
  }
}

TEST_CASE("simulated blocks come one after another and know the grid") {
  std::vector<uint32_t> seen;
  const auto fibers = make_fibers(1);
  launch(*fibers, {3, 32}, [&](const SimulatedBlock& block) {
    if (block.thread() == 5) {
      seen.push_back(block.index() * 10 + block.blocks());
    }
  });
  CHECK(seen == std::vector<uint32_t>{3, 13, 23});
}

TEST_CASE("a missing barrier shows in the result of some order of fibers") {
  bool differs = false;
  for (uint32_t seed = 1; seed < 10; ++seed) {
    CHECK(sum_of(64, seed, /*synced=*/true) == 2016);
    differs = differs || sum_of(64, seed, /*synced=*/false) != 2016;
  }
  CHECK(differs);
}

TEST_CASE("a barrier that some threads miss is an error") {
  const auto fibers = make_fibers(1);
  CHECK_THROWS_AS(
      launch(
          *fibers, {1, 64},
          [](const SimulatedBlock& block) {
            if (block.thread() < 40) {
              block.sync();
            }
          }),
      std::logic_error);
}

TEST_CASE("threads of the operating system give what fibers give") {
  std::vector<double> shuffled(64);
  int votes = 0;
  const auto threads = make_threads();
  launch(*threads, {1, 64}, [&](const SimulatedBlock& block) {
    shuffled[block.thread()] = block.shuffle_down(block.thread(), 1);
    if (block.any(block.thread() == 63) && block.thread() == 0) {
      votes = 1;
    }
  });
  CHECK(votes == 1);
  CHECK(shuffled[30] == 31);
  CHECK(shuffled[31] == 31);
  CHECK(shuffled[63] == 63);
}
