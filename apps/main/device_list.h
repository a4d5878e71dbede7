// The value of --device: which devices workers take in turn.
#pragma once

#include <string>
#include <vector>

#include "runtime/device.h"

namespace kerf::apps {

// "cpu", "cuda:1", "cuda" for every GPU of this host, or several with commas, as names of devices
// (runtime/device.h), in order; worker i takes i modulo their number. Throws Error{kUsage} at
// --device for anything else, and for a GPU that is not there, saying why.
std::vector<std::string> device_list(const std::string& text);

// Whether it has the form of such a list; of another host's, whose devices are not known here.
bool names_devices(const std::string& text);

// The kinds that such a list names, for who only foresees a run: no GPU needs to be there. Throws
// Error{kUsage} at --device for what names no device, and for a GPU where this build has no kernels
// for it.
std::vector<runtime::DeviceKind> planned_devices(const std::string& text);

}  // namespace kerf::apps
