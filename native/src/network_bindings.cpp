#include "network_bindings.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "dispatch.hpp"
#include "network.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace binaryrelax {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t MOST_THREADS = 1024;
constexpr const char* ABOUT = "A network of a file that export_native has written; `binaryrelax_native.load` makes one.";

// Sizes as numpy has them: (N, C, H, W) or (N, F).
Sizes sizes_of(const Shape& shape) {
    if (shape.is_map) return {shape.images, shape.channels, shape.height, shape.width};
    return {shape.images, shape.channels};
}

Shape shape_of(const Sizes& sizes, const Sizes& example, size_t input) {
    const std::string name = "input " + std::to_string(input);
    if (sizes.size() != example.size() + 1) {
        reject(name + ": must have " + std::to_string(example.size() + 1) + " dimensions, has " +
               std::to_string(sizes.size()));
    }
    if (sizes[1] != example[0]) {
        reject(name + ": must have " + std::to_string(example[0]) + " channels, has " + std::to_string(sizes[1]));
    }
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (sizes[axis] < (axis == 0 ? 0 : 1)) reject(name + ": has no values");
    }
    if (sizes.size() == 2) return {sizes[0], 1, 1, sizes[1], false};
    return {sizes[0], sizes[2], sizes[3], sizes[1], true};
}

class BoundNetwork {
  public:
    BoundNetwork(nb::handle data, int64_t threads, const std::optional<std::string>& instruction_set,
                 int64_t most_bytes) {
        if (threads < 1 || threads > MOST_THREADS) {
            reject("threads=" + std::to_string(threads) + ": must be between 1 and " + std::to_string(MOST_THREADS));
        }
        const Array array("data", data);
        array.require_type(Array::Type::Byte);
        array.require_dimensions(1);
        const Kernels& kernels = choose_kernels(instruction_set.value_or(""));
        nb::gil_scoped_release unlocked;
        network_ = std::make_unique<Network>(read_network_file(array.bytes(), static_cast<size_t>(array.size(0))),
                                             kernels, static_cast<int>(threads), most_bytes);
    }

    Network& network() const { return *network_; }

    std::vector<Shape> shapes(const std::vector<Sizes>& sizes) const {
        const std::vector<Sizes>& examples = network_->file().inputs;
        if (sizes.size() != examples.size()) {
            reject("the network takes " + std::to_string(examples.size()) + " inputs, not " +
                   std::to_string(sizes.size()));
        }
        std::vector<Shape> found;
        for (size_t input = 0; input < sizes.size(); ++input) {
            found.push_back(shape_of(sizes[input], examples[input], input));
            if (found[input].images != found[0].images) {
                reject("input " + std::to_string(input) + ": is a batch of " + std::to_string(found[input].images) +
                       ", input 0 of " + std::to_string(found[0].images));
            }
        }
        return found;
    }

    std::vector<Sizes> output_shapes(const std::vector<Sizes>& inputs) const {
        std::vector<Sizes> found;
        for (const Shape& shape : network_->output_shapes(shapes(inputs))) found.push_back(sizes_of(shape));
        return found;
    }

    void run(const nb::list& inputs, const nb::list& outputs, std::vector<StepTime>* times = nullptr) const {
        std::vector<Array> arrays;
        std::vector<Sizes> sizes;
        for (const nb::handle object : inputs) {
            arrays.emplace_back("input", object);
            arrays.back().require_type(Array::Type::Float);
            sizes.push_back(arrays.back().sizes());
        }
        const std::vector<Shape> in = shapes(sizes);
        const std::vector<Shape> out = network_->output_shapes(in);
        if (outputs.size() != out.size()) reject("outputs: must be " + std::to_string(out.size()) + " arrays");
        std::vector<const float*> from;
        for (const Array& array : arrays) from.push_back(array.floats());
        std::vector<float*> to;
        std::vector<Array> written;
        for (const nb::handle object : outputs) {
            Array& array = written.emplace_back("output", object, true);
            array.require_type(Array::Type::Float);
            if (array.sizes() != sizes_of(out[to.size()])) reject("output " + array.shape() + ": of another shape");
            for (const Array& input : arrays) {
                if (array.overlaps(input)) reject("output: must not share memory with an input");
            }
            to.push_back(array.writable_floats());
        }
        nb::gil_scoped_release unlocked;
        network_->run(in, from.data(), to.data(), times);
    }

    std::vector<std::pair<std::string, double>> profile(const nb::list& inputs, const nb::list& outputs) const {
        std::vector<StepTime> times;
        run(inputs, outputs, &times);
        std::vector<std::pair<std::string, double>> found;
        for (const StepTime& time : times) found.emplace_back(time.name, time.seconds);
        return found;
    }

  private:
    std::unique_ptr<Network> network_;
};

}  // namespace

void bind_network(nb::module_& module) {
    nb::class_<BoundNetwork>(module, "Network", ABOUT)
        .def(nb::init<nb::handle, int64_t, const std::optional<std::string>&, int64_t>(), "data"_a, "threads"_a,
             "instruction_set"_a.none(), "most_bytes"_a)
        .def("run", [](const BoundNetwork& self, const nb::list& inputs, const nb::list& outputs) {
                 self.run(inputs, outputs);
             }, "inputs"_a, "outputs"_a, "Write the outputs for float32 arrays into float32 arrays.")
        .def("profile", &BoundNetwork::profile, "inputs"_a, "outputs"_a,
             "The same in one thread; gives the name of each step and the seconds that it took.")
        .def("output_shapes", &BoundNetwork::output_shapes, "input_shapes"_a,
             "Shapes of the outputs for inputs of these shapes.")
        .def("memory", [](const BoundNetwork& self, const std::vector<Sizes>& inputs) {
                 return self.network().bytes_of_call(self.shapes(inputs));
             }, "input_shapes"_a, "Bytes of memory that a call with such inputs needs, beside the weights.")
        .def_prop_ro("mode", [](const BoundNetwork& self) { return self.network().is_fast() ? "fast" : "exact"; },
                     "\"exact\" or \"fast\".")
        .def_prop_ro("inputs", [](const BoundNetwork& self) { return self.network().file().inputs; },
                     "Shapes of the example's inputs, without the batch.")
        .def_prop_ro("gives_one", [](const BoundNetwork& self) { return !self.network().file().is_tuple; },
                     "Whether calling it gives an array, and no tuple.")
        .def_prop_ro("about", [](const BoundNetwork& self) { return self.network().file().about; },
                     "What the writer of the file said about it.")
        .def_prop_ro("threads", [](const BoundNetwork& self) { return self.network().threads(); },
                     "How many threads a call uses at most.")
        .def_prop_ro("instruction_set", [](const BoundNetwork& self) { return self.network().kernels().name; },
                     "Which of ``instruction_sets()`` it runs.")
        .def_prop_ro("nbytes", [](const BoundNetwork& self) { return self.network().weight_bytes(); },
                     "Bytes of memory that the weights take.");
}

}  // namespace binaryrelax
