#pragma once

/// Marks a symbol as part of ampcast's public interface; everything else in `libampcast.so` is hidden.
#define AMPCAST_API __attribute__((visibility("default")))
