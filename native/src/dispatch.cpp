#include "dispatch.hpp"

#include <stdexcept>

#ifdef BINARYRELAX_X86
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "x86.hpp"
#endif
#ifdef BINARYRELAX_ARM
#ifdef __linux__
#include <sys/auxv.h>
#endif

#include "arm.hpp"
#endif

namespace binaryrelax {
namespace {

#ifdef BINARYRELAX_X86
const Kernels AVX2_KERNELS = {"avx2", avx2::build_tables, avx2::look_up, avx2::largest_magnitude,
                              avx2::to_bytes, avx2::shuffle, avx2::dot_codes, avx2::expand,
                              avx2::dot_bytes, nullptr, avx2::add_signed, avx2::add_signed,
                              avx2::finish_exact, avx2::finish_fast, 1, nullptr, nullptr,
                              avx2::multiply, nullptr, avx2::multiply_depthwise, avx2::write_outputs,
                              avx2::quantize, &avx2::FLOATS, nullptr};

const Kernels AVX_VNNI_KERNELS = {"avx_vnni", avx2::build_tables, avx2::look_up, avx2::largest_magnitude,
                                  avx2::to_bytes, avx2::shuffle, avx2::dot_codes, avx2::expand,
                                  avx_vnni::dot_bytes, nullptr, avx2::add_signed, avx2::add_signed,
                                  avx2::finish_exact, avx2::finish_fast, 1, nullptr, nullptr,
                                  avx_vnni::multiply, nullptr, avx2::multiply_depthwise, avx2::write_outputs,
                                  avx2::quantize, &avx2::FLOATS, nullptr};

const Kernels AVX512_KERNELS = {"avx512_vnni", avx512::build_tables, avx512::look_up, avx512::largest_magnitude,
                                avx512::to_bytes, avx512::shuffle, avx512::dot_codes, avx512::expand,
                                avx512::dot_bytes, nullptr, avx512::add_signed, avx512::add_signed,
                                avx512::finish_exact, avx512::finish_fast, 1, nullptr, nullptr,
                                avx512::multiply, nullptr, avx512::multiply_depthwise, avx512::write_outputs,
                                avx512::quantize, &avx512::FLOATS, &avx512::WINOGRAD};

const Kernels VBMI_KERNELS = {"avx512_vbmi", avx512::build_tables, avx512::look_up, avx512::largest_magnitude,
                              avx512::to_bytes, avx512::shuffle, avx512::dot_codes, avx512_vbmi::expand,
                              avx512::dot_bytes, nullptr, avx512::add_signed, avx512::add_signed,
                              avx512::finish_exact, avx512::finish_fast, 1, nullptr, nullptr,
                              avx512::multiply, avx512_vbmi::multiply_words, avx512::multiply_depthwise,
                              avx512::write_outputs, avx512::quantize, &avx512::FLOATS, &avx512_vbmi::WINOGRAD};

const Kernels AMX_KERNELS = {"amx", avx512::build_tables, avx512::look_up, avx512::largest_magnitude,
                             avx512::to_bytes, avx512::shuffle, avx512::dot_codes, avx512_vbmi::expand,
                             avx512::dot_bytes, amx::dot_rows, avx512::add_signed, avx512::add_signed,
                             avx512::finish_exact, avx512::finish_fast, 16, amx::enter, amx::leave,
                             amx::multiply, nullptr, avx512::multiply_depthwise, avx512::write_outputs, avx512::quantize,
                             &avx512::FLOATS, nullptr};

bool has_avx_vnni() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned AVX_VNNI = 1u << 4;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & AVX_VNNI;
}

// Linux lets a process use the tiles' large registers only after it has asked.
bool may_use_tiles() {
#ifdef __linux__
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned TILE = 1u << 24, INT8 = 1u << 25;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & TILE) || !(d & INT8)) return false;
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

#ifdef BINARYRELAX_ARM
// All but the products of bytes are plain loops, which compilers turn into vectors.
Kernels with_dot_products() {
    Kernels kernels = PORTABLE_KERNELS;
    kernels.name = "dotprod";
    kernels.dot_bytes = dotprod::dot_bytes;
    kernels.multiply = dotprod::multiply;
    return kernels;
}

bool has_dot_products() {
#ifdef __linux__
    constexpr unsigned long DOT_PRODUCTS = 1ul << 20;
    return getauxval(AT_HWCAP) & DOT_PRODUCTS;
#else
    return true;  // every Mac has them
#endif
}
#endif

std::vector<const Kernels*> find_available() {
    std::vector<const Kernels*> found{&PORTABLE_KERNELS};
#ifdef BINARYRELAX_X86
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) found.push_back(&AVX2_KERNELS);
    if (avx2 && has_avx_vnni()) found.push_back(&AVX_VNNI_KERNELS);
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx2 && avx512) found.push_back(&AVX512_KERNELS);
    const bool vbmi = avx2 && avx512 && __builtin_cpu_supports("avx512vbmi");
    if (vbmi) found.push_back(&VBMI_KERNELS);
    if (vbmi && may_use_tiles()) found.push_back(&AMX_KERNELS);
#endif
#ifdef BINARYRELAX_ARM
    static const Kernels DOTPROD_KERNELS = with_dot_products();
    if (has_dot_products()) found.push_back(&DOTPROD_KERNELS);
#endif
    return found;
}

}  // namespace

const std::vector<const Kernels*>& available_kernels() {
    static const std::vector<const Kernels*> kernels = find_available();
    return kernels;
}

const Kernels& choose_kernels(const std::string& name) {
    std::string names;
    for (const Kernels* kernels : available_kernels()) {
        if (name == kernels->name) return *kernels;
        names += (names.empty() ? "" : ", ") + std::string(kernels->name);
    }
    if (name.empty()) return *available_kernels().back();
    throw std::invalid_argument("instruction_set='" + name + "': this CPU runs " + names);
}

}  // namespace binaryrelax
