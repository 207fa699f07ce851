#include "program.hpp"

#include <stdexcept>

#include "json_fields.hpp"
#include "manifest.hpp"

namespace binaryrelax {
namespace {

constexpr size_t MOST_OPERATIONS = 1 << 13;  // planning memory takes their square
constexpr size_t MOST_OUTPUTS = 1 << 10;

class ProgramReader {
  public:
    ProgramReader(const Json& json, const StoredWeights& weights, NetworkFile& file)
        : fields_(json, "its program"), weights_(weights), file_(file) {}

    void read() {
        file_.fast = fields_.choice("mode", {"exact", "fast"}) == 1;
        read_inputs();
        read_operations();
        read_outputs();
        read_ranges();
        fields_.finish();
    }

  private:
    void read_inputs() {
        for (const Json& json : fields_.list("inputs")) {
            std::vector<int64_t> shape;
            const Json::List* sizes = json.list();
            if (!sizes || (sizes->size() != 1 && sizes->size() != 3)) fields_.fail("an input is neither map nor vector");
            for (const Json& size : *sizes) {
                const int64_t* value = size.integer();
                if (!value || *value < 1 || *value > MOST_SIZE) fields_.fail("an input has a size out of bounds");
                shape.push_back(*value);
            }
            add_value({shape.size() == 3, shape[0], shape.size() == 3 ? -1 : 1});
            file_.inputs.push_back(std::move(shape));
        }
        if (file_.inputs.empty()) fields_.fail("it has no input");
    }

    void read_operations() {
        const Json::List& operations = fields_.list("operations");
        if (operations.size() > MOST_OPERATIONS) fields_.fail("it has too many operations");
        file_.operations.reserve(operations.size());
        for (const Json& json : operations) add_operation(json);
    }

    void add_operation(const Json& json) {
        const size_t index = file_.operations.size();
        Operation operation = read_operation(json, index, static_cast<int>(values_.size()));
        try {
            find_weights(operation);
            std::vector<KnownValue> in;
            for (const int value : operation.in) in.push_back(values_[static_cast<size_t>(value)]);
            add_value(known_output(operation, in, weights_));
        } catch (const std::invalid_argument& error) {
            throw std::invalid_argument(title_of_operation(json, index) + ": " + error.what());
        }
        file_.operations.push_back(std::move(operation));
    }

    void add_value(const KnownValue& value) {
        values_.push_back(value);
        file_.values.push_back({value.is_map, value.channels, std::nullopt});
    }

    // From the names in the file to those of what is stored.
    void find_weights(Operation& operation) const {
        if (operation.kind == OperationKind::Affine) {
            operation.scale = stored_float(operation.scale);
            operation.shift = stored_float(operation.shift);
        }
        if (operation.kind != OperationKind::Conv && operation.kind != OperationKind::Linear) return;
        if (operation.factor) operation.factor = stored_float(*operation.factor);
        if (operation.bias) operation.bias = stored_float(*operation.bias);
        const auto layer = weights_.packed_names.find(operation.weight);
        operation.packed = layer != weights_.packed_names.end();
        if (operation.packed && weights_.float_names.count(operation.weight)) {
            throw std::invalid_argument("both a layer and a tensor are called " + quoted(operation.weight));
        }
        operation.weight = operation.packed ? layer->second : stored_float(operation.weight);
        if (operation.kind == OperationKind::Conv) read_kernel(operation);
    }

    std::string stored_float(const std::string& name) const {
        const auto found = weights_.float_names.find(name);
        if (found == weights_.float_names.end()) {
            throw std::invalid_argument("no float32 tensor is called " + quoted(name));
        }
        return found->second;
    }

    // A weight of other than four sizes will be refused.
    void read_kernel(Operation& operation) const {
        const std::vector<int64_t>& shape = operation.packed ? weights_.packed.at(operation.weight).shape
                                                             : weights_.floats.at(operation.weight).shape;
        for (size_t i = 0; i < 2 && shape.size() == 4; ++i) operation.kernel[i] = shape[2 + i];
    }

    void read_outputs() {
        const auto num_inputs = static_cast<int64_t>(file_.inputs.size());
        for (const Json& json : fields_.list("outputs")) {
            const int64_t* value = json.integer();
            if (!value || *value < num_inputs || *value >= static_cast<int64_t>(values_.size())) {
                fields_.fail("an output is no value that an operation writes");
            }
            file_.outputs.push_back(static_cast<int>(*value));
        }
        if (file_.outputs.empty()) fields_.fail("it has no output");
        if (file_.outputs.size() > MOST_OUTPUTS) fields_.fail("it has too many outputs");
        file_.is_tuple = fields_.choice("layout", {"single", "tuple"}) == 1;
        if (!file_.is_tuple && file_.outputs.size() != 1) fields_.fail("it has more than a single output");
    }

    void read_ranges() {
        const Json::List& ranges = fields_.list("ranges");
        if (ranges.size() != file_.values.size()) fields_.fail("'ranges' are not as many as values");
        for (size_t i = 0; i < ranges.size(); ++i) {
            if (ranges[i].is_null()) continue;
            const std::string where = "the range of value " + std::to_string(i);
            const Json::List* bounds = ranges[i].list();
            if (!bounds || bounds->size() != 2) fields_.fail(where + " is not two numbers");
            const Range range{checked_float((*bounds)[0], where), checked_float((*bounds)[1], where)};
            if (range.low > range.high) fields_.fail(where + " ends before it begins");
            file_.values[i].range = range;
        }
    }

    Fields fields_;
    const StoredWeights& weights_;
    NetworkFile& file_;
    std::vector<KnownValue> values_;
};

}  // namespace

void read_program(const Json& json, const StoredWeights& weights, NetworkFile& file) {
    ProgramReader(json, weights, file).read();
}

}  // namespace binaryrelax
