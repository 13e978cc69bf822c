#pragma once

#include <ampcast/export.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace ampcast::autocast {

/// A scope that is entered and left by calls instead of by C++ scope, as a Python context manager is.
///
/// It may be entered again before it is left, and by several threads at once: what each entry has to restore is kept in
/// a stack of the thread that entered. Entries may be left in another order than the reverse; each restores what it
/// found.
class AMPCAST_API ReentrantRegion {
 public:
  /// `open` starts the scope; destroying what it returns ends it.
  explicit ReentrantRegion(std::function<std::shared_ptr<void>()> open);

  void enter() const;

  /// Ends this region's latest entry on the calling thread.
  /// \throws c10::Error if the calling thread has none.
  void leave() const;

 private:
  std::function<std::shared_ptr<void>()> open_;
  uint64_t id_;
};

} // namespace ampcast::autocast
