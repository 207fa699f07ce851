// The Python module: checks what it is given, releases the interpreter lock and calls the kernels.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "dispatch.hpp"
#include "network_bindings.hpp"
#include "packed_filters.hpp"
#include "packed_matrix.hpp"
#include "peak.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace binaryrelax {
namespace {

using Pair = std::pair<int64_t, int64_t>;
using Name = std::optional<std::string>;

constexpr int64_t MOST_INPUTS = 1 << 23;  // 255 times this is what a sum of 32 bits holds
constexpr int64_t MOST_THREADS = 1024;

CanonicalCodes checked_codes(const Array& codes, int64_t inputs, int64_t bits) {
    if (bits != 1 && bits != 2) reject("bits=" + std::to_string(bits) + ": must be 1 (binary) or 2 (ternary)");
    if (inputs < 0 || inputs >= MOST_INPUTS) {
        reject("inputs=" + std::to_string(inputs) + ": must be between 0 and " + std::to_string(MOST_INPUTS - 1));
    }
    codes.require_type(Array::Type::Byte);
    codes.require_dimensions(2);
    CanonicalCodes canonical{codes.bytes(), codes.size(0), inputs, static_cast<int>(bits)};
    if (codes.size(1) != canonical.row_bytes()) {
        reject("codes " + codes.shape() + ": a row of " + std::to_string(inputs) + " codes of " +
               std::to_string(bits) + " bits takes " + std::to_string(canonical.row_bytes()) + " bytes");
    }
    canonical.check();
    return canonical;
}

std::vector<float> checked_scale(const Array& scale, int64_t outputs) {
    scale.require_type(Array::Type::Float);
    scale.require_dimensions(1);
    if (scale.size(0) != 1 && scale.size(0) != outputs) {
        reject("scale " + scale.shape() + ": must have 1 or " + std::to_string(outputs) + " values");
    }
    const float* values = scale.floats();
    if (scale.size(0) == outputs) return std::vector<float>(values, values + outputs);
    return std::vector<float>(static_cast<size_t>(outputs), values[0]);
}

struct Operands {
    Array x, y;
    std::optional<Array> bias;
    int threads;

    Operands(nb::handle x_object, nb::handle y_object, nb::handle bias_object, int64_t threads_asked, int dimensions,
             int64_t outputs)
        : x("x", x_object), y("y", y_object, true), threads(static_cast<int>(threads_asked)) {
        if (threads_asked < 1 || threads_asked > MOST_THREADS) {
            reject("threads=" + std::to_string(threads_asked) + ": must be between 1 and " +
                   std::to_string(MOST_THREADS));
        }
        for (const Array* array : {&x, &y}) {
            array->require_type(Array::Type::Float);
            array->require_dimensions(dimensions);
        }
        if (!bias_object.is_none()) {
            bias.emplace("bias", bias_object);
            bias->require_type(Array::Type::Float);
            bias->require_shape({outputs});
        }
        if (y.overlaps(x) || (bias && y.overlaps(*bias))) reject("y: must not share memory with x or bias");
    }

    const float* bias_values() const { return bias ? bias->floats() : nullptr; }
};

constexpr const char* ABOUT_MATRIX = R"(A matrix of 1-bit or ternary weights, re-tiled for the CPU.

Arrays are numpy's or anything that speaks DLPack, C-contiguous, in CPU memory.

Args:
    codes: uint8 of shape (outputs, bytes of a row), the codes of a row from the lowest bits on.
        With 1 bit the codes 0 and 1 mean -1 and +1; with 2 bits 0, 1 and 2 mean -1, 0 and +1.
    scale: float32, one value or one for each output.
    inputs: the number of codes in a row.
    bits: 1 (binary) or 2 (ternary).
    instruction_set: one of ``instruction_sets()``; the best if not given.

Raises:
    ValueError: an array or a number does not fit; the message names it.

Examples:
    >>> import numpy as np
    >>> from binaryrelax_native import PackedMatrix
    >>> codes = np.array([[0b1101], [0b0111]], np.uint8)  # rows +1 -1 +1 +1 and +1 +1 +1 -1
    >>> matrix = PackedMatrix(codes, np.array([0.5], np.float32), inputs=4, bits=1)
    >>> x = np.array([[1, 2, 3, 4]], np.float32)
    >>> y = np.empty((1, 2), np.float32)
    >>> matrix.multiply(x, y, None, fast=False, threads=1)  # y = scale * (weights @ x)
    >>> y
    array([[3., 1.]], dtype=float32))";

PackedMatrix make_matrix(nb::handle codes_object, nb::handle scale_object, int64_t inputs, int64_t bits,
                         const Name& instruction_set) {
    const Array codes("codes", codes_object), scale("scale", scale_object);
    const CanonicalCodes canonical = checked_codes(codes, inputs, bits);
    std::vector<float> scales = checked_scale(scale, canonical.outputs);
    const Kernels& kernels = choose_kernels(instruction_set.value_or(""));
    nb::gil_scoped_release unlocked;
    return PackedMatrix(canonical, std::move(scales), kernels);
}

void multiply(const PackedMatrix& matrix, nb::handle x, nb::handle y, nb::handle bias, bool fast,
              int64_t threads) {
    const Operands operands(x, y, bias, threads, 2, matrix.outputs());
    const int64_t rows = operands.x.size(0);
    operands.x.require_shape({rows, matrix.inputs()});
    operands.y.require_shape({rows, matrix.outputs()});
    nb::gil_scoped_release unlocked;
    matrix.multiply(operands.x.floats(), rows, operands.bias_values(), fast, operands.threads,
                    operands.y.writable_floats());
}

void require_pair(const char* name, Pair pair, int64_t least) {
    for (const int64_t value : {pair.first, pair.second}) {
        if (value >= least && value < MOST_INPUTS) continue;
        reject(std::string(name) + "=(" + std::to_string(pair.first) + ", " + std::to_string(pair.second) +
               "): must be at least " + std::to_string(least) + " and below " + std::to_string(MOST_INPUTS));
    }
}

Geometry checked_geometry(const std::vector<int64_t>& shape, Pair stride, Pair padding, Pair dilation,
                          int64_t groups) {
    if (shape.size() != 4) reject("shape: must be (outputs, inputs of a group, height, width)");
    for (const int64_t size : shape) {
        if (size < 1 || size >= MOST_INPUTS) reject("shape: every size must be at least 1 and below 2^23");
    }
    require_pair("stride", stride, 1);
    require_pair("padding", padding, 0);
    require_pair("dilation", dilation, 1);
    if (groups < 1 || shape[0] % groups != 0) {
        reject("groups=" + std::to_string(groups) + ": must divide the " + std::to_string(shape[0]) + " outputs");
    }
    return {shape[0], shape[1], groups,
            {shape[2], stride.first, padding.first, dilation.first},
            {shape[3], stride.second, padding.second, dilation.second}};
}

struct FilterOptions {
    std::vector<int64_t> shape;
    int64_t bits;
    Pair stride, padding, dilation;
    int64_t groups;
};

constexpr const char* ABOUT_FILTERS = R"(Filters of 1-bit or ternary weights, re-tiled for the CPU.

Arrays are numpy's or anything that speaks DLPack, C-contiguous, in CPU memory.

Args:
    codes: uint8 of shape (outputs, bytes of a row), as for ``PackedMatrix``.
    scale: float32, one value or one for each output.
    shape: (outputs, inputs of a group, height, width).
    bits: 1 (binary) or 2 (ternary).
    stride: vertical and horizontal.
    padding: vertical and horizontal, with zeros.
    dilation: vertical and horizontal.
    groups: into which inputs and outputs are split.
    instruction_set: one of ``instruction_sets()``; the best if not given.

Raises:
    ValueError: an array or a number does not fit; the message names it.

Examples:
    >>> import numpy as np
    >>> from binaryrelax_native import PackedFilters
    >>> codes = np.array([[0b10_01_00]], np.uint8)  # one filter of 1 x 3 pixels: -1 0 +1
    >>> one = np.ones(1, np.float32)
    >>> filters = PackedFilters(codes, one, (1, 1, 1, 3), 2, (1, 1), (0, 0), (1, 1), 1)
    >>> filters.output_size(1, 5)
    (1, 3)
    >>> x = np.array([1, 2, 4, 8, 16], np.float32).reshape(1, 1, 5, 1)  # NHWC
    >>> y = np.empty((1, 1, 3, 1), np.float32)
    >>> filters.convolve(x, y, None, fast=False, threads=1)
    >>> y.ravel()
    array([ 3.,  6., 12.], dtype=float32))";

PackedFilters make_filters(nb::handle codes_object, nb::handle scale_object, const FilterOptions& options,
                           const Name& instruction_set) {
    const Array codes("codes", codes_object), scale("scale", scale_object);
    const Geometry geometry = checked_geometry(options.shape, options.stride, options.padding, options.dilation,
                                               options.groups);
    if (geometry.taps() >= MOST_INPUTS || geometry.inputs() >= MOST_INPUTS) {
        reject("shape: an output must have fewer than 2^23 weights");
    }
    const CanonicalCodes canonical = checked_codes(codes, geometry.inputs(), options.bits);
    if (canonical.outputs != geometry.outputs) {
        reject("codes " + codes.shape() + ": must have " + std::to_string(geometry.outputs) + " rows");
    }
    std::vector<float> scales = checked_scale(scale, canonical.outputs);
    const Kernels& kernels = choose_kernels(instruction_set.value_or(""));
    nb::gil_scoped_release unlocked;
    return PackedFilters(canonical, std::move(scales), geometry, kernels);
}

Image checked_output_size(const PackedFilters& filters, int64_t height, int64_t width) {
    const std::string size = std::to_string(height) + "x" + std::to_string(width);
    if (height < 0 || width < 0) reject("image of " + size + ": sizes must not be negative");
    const Image output = filters.output_size({height, width});
    if (output.height < 1 || output.width < 1) {
        reject("image of " + size + ": too small for the filters, even with its padding");
    }
    return output;
}

void convolve(const PackedFilters& filters, nb::handle x, nb::handle y, nb::handle bias, bool fast,
              int64_t threads) {
    const Geometry& geometry = filters.geometry();
    const Operands operands(x, y, bias, threads, 4, geometry.outputs);
    const int64_t images = operands.x.size(0);
    const Image size{operands.x.size(1), operands.x.size(2)};
    operands.x.require_shape({images, size.height, size.width, geometry.channels()});
    const Image output = checked_output_size(filters, size.height, size.width);
    operands.y.require_shape({images, output.height, output.width, geometry.outputs});
    nb::gil_scoped_release unlocked;
    filters.convolve(operands.x.floats(), images, size, operands.bias_values(), fast, operands.threads,
                     operands.y.writable_floats());
}

constexpr const char* ABOUT_SETS = R"(Names of the instruction sets this CPU can run, best last.

Examples:
    >>> from binaryrelax_native import instruction_sets
    >>> instruction_sets()[0]  # every CPU can run this one
    'portable')";

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernels* kernels : available_kernels()) names.emplace_back(kernels->name);
    return names;
}

constexpr const char* ABOUT_PEAK = R"(Multiply-additions of bytes per second that one core of this CPU can do, in registers alone.

Takes about 20 milliseconds. Others on the machine make it smaller.

Args:
    instruction_set: one of ``instruction_sets()``; the best if not given.

Examples:
    >>> from binaryrelax_native import int8_peak
    >>> int8_peak("portable") > 1e6
    True)";

double measured_int8_peak(const Name& instruction_set) {
    nb::gil_scoped_release unlocked;
    return int8_peak(instruction_set.value_or(""));
}

}  // namespace
}  // namespace binaryrelax

NB_MODULE(_native, module) {
    using namespace binaryrelax;
    module.attr("__version__") = BINARYRELAX_VERSION;
    bind_network(module);
    module.def("instruction_sets", &instruction_sets, ABOUT_SETS);
    module.def("int8_peak", &measured_int8_peak, "instruction_set"_a = nb::none(), ABOUT_PEAK);

    nb::class_<PackedMatrix>(module, "PackedMatrix", ABOUT_MATRIX)
        .def(
            "__init__",
            [](PackedMatrix* self, nb::handle codes, nb::handle scale, int64_t inputs, int64_t bits,
               const Name& instruction_set) {
                new (self) PackedMatrix(make_matrix(codes, scale, inputs, bits, instruction_set));
            },
            "codes"_a, "scale"_a, "inputs"_a, "bits"_a, "instruction_set"_a = nb::none())
        .def("multiply", &multiply, "x"_a, "y"_a, "bias"_a.none(), "fast"_a, "threads"_a,
             "Write scale * (weights @ row) + bias into y for every row of x.")
        .def_prop_ro("nbytes", &PackedMatrix::bytes, "Bytes of memory that the weights take.");

    nb::class_<PackedFilters>(module, "PackedFilters", ABOUT_FILTERS)
        .def(
            "__init__",
            [](PackedFilters* self, nb::handle codes, nb::handle scale, const std::vector<int64_t>& shape,
               int64_t bits, Pair stride, Pair padding, Pair dilation, int64_t groups, const Name& instruction_set) {
                const FilterOptions options{shape, bits, stride, padding, dilation, groups};
                new (self) PackedFilters(make_filters(codes, scale, options, instruction_set));
            },
            "codes"_a, "scale"_a, "shape"_a, "bits"_a, "stride"_a, "padding"_a, "dilation"_a, "groups"_a,
            "instruction_set"_a = nb::none())
        .def("convolve", &convolve, "x"_a, "y"_a, "bias"_a.none(), "fast"_a, "threads"_a,
             "Write the convolution of the NHWC images x, times scale plus bias, into y.")
        .def(
            "output_size",
            [](const PackedFilters& filters, int64_t height, int64_t width) {
                const Image output = checked_output_size(filters, height, width);
                return Pair{output.height, output.width};
            },
            "height"_a, "width"_a, "Height and width of the output for an image of this size.")
        .def_prop_ro("nbytes", &PackedFilters::bytes, "Bytes of memory that the weights take.");
}
