// Compiled once with the headers that nearly every test includes, for all of them (CMakeLists.txt).
