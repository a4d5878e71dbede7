// A library of CUDA's, loaded when it is first called.
//
// Linked, they would be loaded into every process, and cuBLASLt takes 0.1 s and 30 MB for that; who
// computes on CPUs, plans or asks for help has no use for it. Files beside this one define a
// library's functions as calls of what this finds. Any thread.
#pragma once

#include <string>

namespace kerf::ops::cuda {

class Library {
 public:
  // By its name where the system finds it, else the file that the build found. Throws
  // Error{kUnavailable} with the loader's words and the way out: to install `product`.
  Library(const char* name, const char* file, const char* product);

  // Throws Error{kUnavailable} where the library has no such function: it is another version.
  void* find(const char* function) const;

 private:
  std::string name_;
  void* handle_;  // for as long as the process lives
};

}  // namespace kerf::ops::cuda
