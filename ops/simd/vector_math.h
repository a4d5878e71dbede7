// The functions of the mathematical library that loops may call on whole vectors: glibc's libmvec
// has them, to 4 units in the last place. To be included before the loops; where a platform has no
// such library they are called one by one.
#pragma once

#include <cmath>

#if defined(__x86_64__) && defined(__GLIBC__)
extern "C" {
#define KERF_VECTOR_FUNCTION _Pragma("omp declare simd notinbranch")
KERF_VECTOR_FUNCTION float expf(float) noexcept;
KERF_VECTOR_FUNCTION float expm1f(float) noexcept;
KERF_VECTOR_FUNCTION float logf(float) noexcept;
KERF_VECTOR_FUNCTION float log1pf(float) noexcept;
KERF_VECTOR_FUNCTION float powf(float, float) noexcept;
KERF_VECTOR_FUNCTION float erff(float) noexcept;
KERF_VECTOR_FUNCTION float sinf(float) noexcept;
KERF_VECTOR_FUNCTION float cosf(float) noexcept;
KERF_VECTOR_FUNCTION float tanf(float) noexcept;
KERF_VECTOR_FUNCTION float asinf(float) noexcept;
KERF_VECTOR_FUNCTION float acosf(float) noexcept;
KERF_VECTOR_FUNCTION float atanf(float) noexcept;
KERF_VECTOR_FUNCTION float sinhf(float) noexcept;
KERF_VECTOR_FUNCTION float coshf(float) noexcept;
KERF_VECTOR_FUNCTION float tanhf(float) noexcept;
KERF_VECTOR_FUNCTION float asinhf(float) noexcept;
KERF_VECTOR_FUNCTION float acoshf(float) noexcept;
KERF_VECTOR_FUNCTION float atanhf(float) noexcept;
#undef KERF_VECTOR_FUNCTION
}
#endif

namespace kerf::ops::simd {

// So many elements are computed at once by loops that call such functions, the last ones of a row
// together with others that are thrown away: a function of one number and its twin for vectors
// round otherwise, and a result must not depend on its place in a row.
inline constexpr int64_t kBlock = 64;

}  // namespace kerf::ops::simd
