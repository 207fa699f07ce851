// Operations as JSON: one function for each kind, which takes the keys that the kind has.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "json_fields.hpp"
#include "manifest.hpp"
#include "program.hpp"

namespace binaryrelax {
namespace {

constexpr size_t LONGEST_NAME = 1000;
constexpr float INFINITE = std::numeric_limits<float>::infinity();

class OperationReader {
  public:
    OperationReader(const Json& json, size_t index, int num_values)
        : fields_(json, title_of_operation(json, index)), num_values_(num_values) {}

    Operation read() {
        read_kind();
        read_name();
        read_inputs();
        read_keys();
        fields_.finish();
        return operation_;
    }

  private:
    void read_kind() {
        operation_.kind = static_cast<OperationKind>(
            fields_.choice("op", {"conv", "linear", "activate", "add", "multiply", "affine", "pool", "adaptive_pool",
                                  "pad", "slice", "flatten", "concat", "upsample", "softmax"}));
    }

    // It will stand in messages of one line.
    void read_name() {
        operation_.name = fields_.text("name");
        const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
        const std::string& name = operation_.name;
        if (name.size() > LONGEST_NAME || std::any_of(name.begin(), name.end(), is_control)) {
            fields_.fail("its name is too long, or holds control characters");
        }
    }

    void read_inputs() {
        for (const Json& value : fields_.list("in")) {
            if (!value.integer() || *value.integer() < 0 || *value.integer() >= num_values_) {
                fields_.fail("'in' names no earlier value");
            }
            operation_.in.push_back(static_cast<int>(*value.integer()));
        }
        const bool is_pair = operation_.kind == OperationKind::Add || operation_.kind == OperationKind::Multiply;
        const size_t wanted = is_pair ? 2 : 1;
        const bool is_enough = operation_.kind == OperationKind::Concat ? !operation_.in.empty()
                                                                        : operation_.in.size() == wanted;
        if (!is_enough) fields_.fail("'in' names " + std::to_string(operation_.in.size()) + " values");
    }

    void read_keys() {
        switch (operation_.kind) {
            case OperationKind::Conv: return read_conv();
            case OperationKind::Linear: return read_linear();
            case OperationKind::Activate: return read_activate();
            case OperationKind::Add:
            case OperationKind::Multiply: return read_activation();
            case OperationKind::Affine: return read_affine();
            case OperationKind::Pool: return read_pool();
            case OperationKind::AdaptivePool: return read_adaptive_pool();
            case OperationKind::Pad: return read_pad();
            case OperationKind::Slice: return read_slice();
            case OperationKind::Flatten:
            case OperationKind::Concat: return;
            case OperationKind::Upsample: return read_upsample();
            case OperationKind::Softmax: operation_.log = fields_.boolean("log", false); return;
        }
    }

    void read_conv() {
        read_linear();
        fields_.integers("stride", operation_.stride, 1, MOST_SIZE);
        fields_.integers("dilation", operation_.dilation, 1, MOST_SIZE);
        read_padding();
        if (fields_.find("groups")) operation_.groups = fields_.integer("groups", 1, MOST_SIZE);
    }

    void read_linear() {
        operation_.weight = fields_.text("weight");
        if (fields_.find("factor")) operation_.factor = fields_.text("factor");
        if (fields_.find("bias")) operation_.bias = fields_.text("bias");
        read_activation();
    }

    void read_activate() {
        fields_.need("activation");
        read_activation();
    }

    void read_affine() {
        operation_.scale = fields_.text("scale");
        operation_.shift = fields_.text("shift");
        read_activation();
    }

    void read_pool() {
        read_maximum();
        fields_.need("kernel"), fields_.need("stride");
        fields_.integers("kernel", operation_.kernel, 1, MOST_SIZE);
        fields_.integers("stride", operation_.stride, 1, MOST_SIZE);
        fields_.integers("dilation", operation_.dilation, 1, operation_.maximum ? MOST_SIZE : 1);
        read_padding();
        operation_.ceil = fields_.boolean("ceil", false);
        operation_.count_padding = fields_.boolean("count_padding", false);
        for (int i = 0; i < 4; ++i) {  // otherwise windows could see nothing but padding
            if (operation_.padding[i] > operation_.dilation[i / 2] * (operation_.kernel[i / 2] - 1)) {
                fields_.fail("its padding is not smaller than its kernel");
            }
        }
    }

    void read_adaptive_pool() {
        read_maximum();
        fields_.need("size");
        fields_.integers("size", operation_.size, 1, MOST_SIZE);
        operation_.has_size = true;
    }

    void read_maximum() { operation_.maximum = fields_.choice("kind", {"max", "average"}) == 0; }

    void read_padding() {
        int64_t padding[4] = {0, 0, 0, 0};
        fields_.integers("padding", padding, 0, MOST_SIZE);
        std::copy(padding, padding + 4, operation_.padding);
    }

    void read_pad() {
        fields_.need("padding");
        fields_.integers("padding", operation_.padding, 0, MOST_SIZE);
        if (fields_.find("value")) operation_.value = fields_.number("value");
    }

    void read_slice() {
        operation_.axis = static_cast<int>(fields_.integer("axis", 1, 3));
        if (fields_.find("start")) operation_.start = fields_.integer("start", 0, MOST_CHANNELS);
        const Json* stop = fields_.find("stop");
        if (stop && !stop->is_null()) operation_.stop = fields_.integer("stop", 0, MOST_CHANNELS);
        if (fields_.find("step")) operation_.step = fields_.integer("step", 1, MOST_CHANNELS);
        if (operation_.stop >= 0 && operation_.start >= operation_.stop) fields_.fail("it takes nothing");
    }

    void read_upsample() {
        operation_.bilinear = fields_.choice("kind", {"nearest", "bilinear"}) == 1;
        operation_.align_corners = fields_.boolean("align_corners", false);
        if (operation_.align_corners && !operation_.bilinear) fields_.fail("only bilinear has align_corners");
        operation_.has_size = fields_.find("size") != nullptr;
        if (operation_.has_size == (fields_.find("factor") != nullptr)) {
            fields_.fail("it needs either 'size' or 'factor'");
        }
        fields_.integers("size", operation_.size, 1, MOST_SIZE);
        if (!operation_.has_size) read_factors();
    }

    void read_factors() {
        const Json::List& factors = fields_.list("factor");
        if (factors.size() != 2) fields_.fail("'factor' is not two numbers");
        for (int i = 0; i < 2; ++i) {
            const std::optional<double> factor = factors[i].number();
            if (!factor || !(*factor > 0.0) || *factor > static_cast<double>(MOST_SIZE)) {
                fields_.fail("'factor' is not two numbers above 0");
            }
            operation_.factors[i] = *factor;
        }
    }

    void read_activation() {
        const Json* json = fields_.find("activation");
        if (!json) return;
        Fields fields(*json, fields_.where() + ": its activation");
        Activation& activation = operation_.activation;
        const int place = fields.choice("kind", {"relu", "relu6", "silu", "gelu", "gelu_tanh", "hard_swish",
                                                 "hard_sigmoid", "sigmoid", "tanh", "clamp", "leaky_relu"});
        activation.kind = static_cast<ActivationKind>(place + 1);  // the first is none
        if (activation.kind == ActivationKind::Clamp) {
            activation.low = limit(fields, "low", -INFINITE);
            activation.high = limit(fields, "high", INFINITE);
            if (activation.low > activation.high) fields.fail("'low' is above 'high'");
        } else if (activation.kind == ActivationKind::LeakyRelu) {
            activation.low = fields.number("slope");
        }
        fields.finish();
    }

    static float limit(Fields& fields, const char* name, float none) {
        const Json* found = fields.find(name);
        return !found || found->is_null() ? none : fields.number(name);
    }

    Fields fields_;
    const int num_values_;
    Operation operation_;
};

}  // namespace

std::string title_of_operation(const Json& json, size_t index) {
    const Json *kind = json.find("op"), *name = json.find("name");
    std::string title = "operation " + std::to_string(index);
    if (!kind || !kind->text() || !name || !name->text()) return title;
    return title + " (" + quoted(*kind->text()) + " " + quoted(*name->text()) + ")";
}

Operation read_operation(const Json& json, size_t index, int num_values) {
    return OperationReader(json, index, num_values).read();
}

}  // namespace binaryrelax
