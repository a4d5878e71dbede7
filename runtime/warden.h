// A warden: the process that removes a folder in memory (memory_folder.h) once nobody needs it.
//
// Its standard input is a connection from the process that made the folder. While that runs, it
// waits. If that ends in order, says so, or was asked to end as the warden was (SIGTERM, SIGINT,
// SIGHUP), the folder goes at once; if it is killed, some seconds later, unless somebody has
// claimed the folder: then when that one is through with it, or so many seconds behind his own end.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

// What is said over it before an end in order.
inline constexpr std::string_view kEndsInOrder = "e";

// This program again, as the warden of that folder.
std::vector<std::string> warden_command(const std::filesystem::path& folder,
                                        std::chrono::seconds outlives);
// A process that was started so has another one, of no parent, do the work: both return an exit
// code, the first once the other is there. Any other process gets an empty optional. main() calls
// this first, with one thread.
std::optional<int> watch_if_warden(int argc, char** argv);

}  // namespace kerf::runtime
