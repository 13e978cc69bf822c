// Includes ampcast's header and names nothing of it: the library must be loaded all the same.

#include <ampcast/ampcast.h>

#include <cstdio>
#include <fstream>
#include <string>

int main() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libampcast.so") != std::string::npos) {
      std::printf("loaded: %s\n", line.c_str());
      return 0;
    }
  }
  std::puts("libampcast.so is not loaded: the linker dropped it");
  return 1;
}
