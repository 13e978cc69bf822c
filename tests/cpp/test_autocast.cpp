#include <ampcast/autocast.h>
#include <ampcast/cast_policy.h>

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "catch2_compat.h"

namespace {

at::ScalarType mm_dtype() {
  return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

struct CountingHandler : c10::WarningHandler {
  int warnings = 0;
  void process(const c10::Warning& /*warning*/) override {
    ++warnings;
  }
};

} // namespace

TEST_CASE("a region casts inside its scope and not after") {
  {
    const ampcast::AutocastGuard autocast(at::kCPU, at::kHalf);
    CHECK(mm_dtype() == at::kHalf);
    CHECK(ampcast::is_enabled(at::kCPU));
    CHECK(ampcast::is_enabled());
    CHECK(ampcast::get_dtype(at::kCPU) == at::kHalf);
    CHECK(ampcast::get_policy() == "default");
  }
  CHECK(mm_dtype() == at::kFloat);
  CHECK_FALSE(ampcast::is_enabled());
  CHECK(ampcast::get_policy() == "torch");
}

TEST_CASE("a region without a dtype uses the device's own") {
  const ampcast::AutocastGuard autocast(at::kCPU);
  CHECK(mm_dtype() == at::kBFloat16);
}

TEST_CASE("nested regions restore what they found") {
  const ampcast::AutocastGuard outer(at::kCPU, at::kHalf);
  {
    const ampcast::AutocastGuard inner(
        at::kCPU, ampcast::AutocastOptions{.dtype = at::kBFloat16, .cache_enabled = false, .policy = "torch"});
    CHECK(mm_dtype() == at::kBFloat16);
    CHECK_FALSE(at::autocast::is_autocast_cache_enabled());
    CHECK(ampcast::get_policy() == "torch");
  }
  CHECK(mm_dtype() == at::kHalf);
  CHECK(at::autocast::is_autocast_cache_enabled());
  CHECK(ampcast::get_policy() == "default");
}

TEST_CASE("a region with enabled false casts nothing") {
  const ampcast::AutocastGuard outer(at::kCPU, at::kHalf);
  const ampcast::AutocastGuard inner(at::kCPU, ampcast::AutocastOptions{.enabled = false});
  CHECK(mm_dtype() == at::kFloat);
  CHECK_FALSE(ampcast::is_enabled());
}

TEST_CASE("float32 means full precision without a warning") {
  CountingHandler handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  const ampcast::AutocastGuard outer(at::kCPU, at::kHalf);
  const ampcast::AutocastGuard inner(at::kCPU, at::kFloat);
  CHECK(mm_dtype() == at::kFloat);
  CHECK(handler.warnings == 0);
}

TEST_CASE("a dtype that the device does not autocast to warns and disables the region") {
  CountingHandler handler;
  const c10::WarningUtils::WarningHandlerGuard guard(&handler);
  const ampcast::AutocastGuard autocast(at::kCPU, at::kDouble);
  CHECK(handler.warnings == 1);
  CHECK_FALSE(ampcast::is_enabled(at::kCPU));
  CHECK(mm_dtype() == at::kFloat);
}

TEST_CASE("AutocastDisabledGuard turns every device off") {
  const ampcast::AutocastGuard outer(at::kCPU, at::kHalf);
  {
    const ampcast::AutocastDisabledGuard disabled;
    CHECK(mm_dtype() == at::kFloat);
    CHECK_FALSE(ampcast::is_enabled());
    const ampcast::AutocastGuard inner(at::kCPU, at::kBFloat16);
    CHECK(mm_dtype() == at::kBFloat16);
  }
  CHECK(mm_dtype() == at::kHalf);
}

TEST_CASE("an exception in the body leaves the thread as the region found it") {
  try {
    const ampcast::AutocastGuard autocast(at::kCPU, at::kHalf);
    throw std::runtime_error("body");
  } catch (const std::runtime_error&) {
  }
  CHECK_FALSE(ampcast::is_enabled());
  CHECK(at::autocast::increment_nesting() == 1);
  CHECK(at::autocast::decrement_nesting() == 0);
  STATIC_REQUIRE(std::is_nothrow_destructible_v<ampcast::AutocastGuard>);
  STATIC_REQUIRE_FALSE(std::is_copy_constructible_v<ampcast::AutocastGuard>);
}

TEST_CASE("a region acts on its own thread only") {
  const ampcast::AutocastGuard autocast(at::kCPU, at::kHalf);
  at::ScalarType seen = at::kDouble;
  std::thread([&seen] { seen = mm_dtype(); }).join();
  CHECK(seen == at::kFloat);
}

TEST_CASE("the cast cache holds a weight's cast until the outermost region ends") {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_();
  const auto cast = [&weight] { return at::autocast::cached_cast(at::kHalf, weight, at::kCPU); };
  at::Tensor first;
  {
    const ampcast::AutocastGuard outer(at::kCPU, at::kHalf);
    first = cast();
    { const ampcast::AutocastGuard inner(at::kCPU, at::kHalf); }
    CHECK(cast().is_same(first));
  }
  const ampcast::AutocastGuard again(at::kCPU, at::kHalf);
  CHECK_FALSE(cast().is_same(first));
}

TEST_CASE("a region refuses devices without autocast and unknown policies, and changes nothing") {
  CHECK_THROWS_WITH(
      ampcast::AutocastGuard(at::kMeta),
      Catch::Matchers::ContainsSubstring("must be a device type that torch autocasts"));
  CHECK_THROWS_AS(ampcast::AutocastGuard(at::kCPU, ampcast::AutocastOptions{.policy = "uniform"}), c10::ValueError);
  CHECK_THROWS_AS(ampcast::is_enabled(at::kMeta), c10::Error);
  CHECK_THROWS_AS(ampcast::get_dtype(at::kMeta), c10::Error);
  CHECK_FALSE(ampcast::is_enabled());
  CHECK(at::autocast::increment_nesting() == 1);
  at::autocast::decrement_nesting();
}

TEST_CASE("cast lists are sorted and name each op once") {
  for (const at::DeviceType device : {at::kCPU, at::kCUDA}) {
    const auto list = ampcast::cast_list(device);
    CHECK(list.size() > 100);
    CHECK(std::ranges::is_sorted(list, {}, &ampcast::CastListEntry::op));
    CHECK(std::ranges::adjacent_find(list, {}, &ampcast::CastListEntry::op) == list.end());
  }
  CHECK_THROWS_AS(ampcast::cast_list(at::kMeta), c10::ValueError);
}

TEST_CASE("rules print as users write them") {
  CHECK(ampcast::to_string(ampcast::CastRule::fp32_dtype) == "fp32_dtype");
  CHECK(ampcast::to_string(ampcast::CastRule::banned) == "banned");
}
