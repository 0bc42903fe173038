// The functions that the headers of {fmt} only declare, compiled once for the whole library. The package's shared
// library is not linked, because libtutti.so shall need nothing of the kind to be loaded; and a copy in every file
// (FMT_HEADER_ONLY) takes two thirds of the time that the library compiles.
#include <fmt/format-inl.h>

// The explicit instantiations are those of {fmt}'s own src/format.cc, for char alone.
FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template FMT_API void buffer<char>::append(const char*, const char*);
}  // namespace detail
FMT_END_NAMESPACE
