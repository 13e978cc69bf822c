#include "autocast/reentrant_region.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

namespace ampcast::autocast {

namespace {

struct Entry {
  uint64_t region;
  std::shared_ptr<void> scope;
};

// Leaked: a thread that ends with open entries has no state left to restore.
std::vector<Entry>& thread_entries() {
  static thread_local auto* entries = new std::vector<Entry>();
  return *entries;
}

uint64_t next_id() {
  static std::atomic<uint64_t> id{0};
  return id.fetch_add(1, std::memory_order_relaxed);
}

} // namespace

ReentrantRegion::ReentrantRegion(std::function<std::shared_ptr<void>()> open)
    : open_(std::move(open)), id_(next_id()) {}

void ReentrantRegion::enter() const {
  thread_entries().push_back({id_, open_()});
}

void ReentrantRegion::leave() const {
  std::vector<Entry>& entries = thread_entries();
  const auto latest =
      std::find_if(entries.rbegin(), entries.rend(), [this](const Entry& e) { return e.region == id_; });
  TORCH_CHECK(
      latest != entries.rend(),
      "ampcast: a region must be left by the thread that entered it, and once an entry; this thread has no open entry "
      "of it. "
      "Enter and leave it with one `with` statement.");
  const std::shared_ptr<void> scope = std::move(latest->scope);
  entries.erase(std::next(latest).base());
}

} // namespace ampcast::autocast
