// What is known of a value before any image: whether it is a map, its channels, and sometimes its size. What images
// decide is checked for each size of them by `infer_shapes`.
#include <algorithm>
#include <stdexcept>

#include "manifest.hpp"
#include "program.hpp"
#include "safetensors.hpp"

namespace binaryrelax {
namespace {

[[noreturn]] void refuse(const std::string& problem) { throw std::invalid_argument(problem); }

std::string count_text(int64_t count, bool is_map) {
    return std::to_string(count) + (is_map ? " channels" : " features");
}

class KnownOutput {
  public:
    KnownOutput(const Operation& operation, const std::vector<KnownValue>& in, const StoredWeights& weights)
        : operation_(operation), in_(in), weights_(weights), first_(in[0]) {}

    KnownValue find() const {
        const KnownValue found = find_any();
        if (found.channels == 0) refuse("it gives no values");
        if (found.channels > MOST_CHANNELS) refuse("it gives too many channels");
        return found;
    }

  private:
    KnownValue find_any() const {
        switch (operation_.kind) {
            case OperationKind::Conv: return find_conv();
            case OperationKind::Linear: return find_linear();
            case OperationKind::Activate:
            case OperationKind::Softmax: return first_;
            case OperationKind::Add:
            case OperationKind::Multiply: return find_pair();
            case OperationKind::Affine: return find_affine();
            case OperationKind::Pool: require_map(); return {true, first_.channels, -1};
            case OperationKind::AdaptivePool: return resized(operation_.size[0] * operation_.size[1]);
            case OperationKind::Upsample:
                return resized(operation_.has_size ? operation_.size[0] * operation_.size[1] : -1);
            case OperationKind::Pad: return find_pad();
            case OperationKind::Slice: return find_slice();
            case OperationKind::Flatten: return find_flatten();
            case OperationKind::Concat: return find_concat();
        }
        refuse("it is unknown");
    }

    void require_map() const {
        if (!first_.is_map) refuse("its input is a vector, not a map");
    }

    void require_channels(int64_t channels, const char* what) const {
        if (first_.channels == channels || first_.channels < 0) return;
        refuse(std::string(what) + " takes " + count_text(channels, first_.is_map) + ", its input has " +
               std::to_string(first_.channels));
    }

    const std::vector<int64_t>& weight_shape() const {
        return operation_.packed ? weights_.packed.at(operation_.weight).shape
                                 : weights_.floats.at(operation_.weight).shape;
    }

    // Sizes of a weight whose product is within bounds; those of packed ones have been checked.
    void check_weight(size_t dimensions) const {
        const std::vector<int64_t>& shape = weight_shape();
        bool fits = shape.size() == dimensions;
        int64_t count = 1;
        for (const int64_t size : shape) {
            fits = fits && size >= 1 && size <= MOST_SIZE;
            if (fits) fits = (count *= size) <= MOST_WEIGHTS;
        }
        if (!fits) refuse("its weight has the shape " + shape_text(shape));
        if (operation_.factor) check_floats(*operation_.factor, "factor", shape[0]);
        if (operation_.bias) check_floats(*operation_.bias, "bias", shape[0]);
    }

    void check_floats(const std::string& name, const char* what, int64_t count) const {
        const std::vector<int64_t>& shape = weights_.floats.at(name).shape;
        if (shape == std::vector<int64_t>{count}) return;
        refuse(std::string("its ") + what + " has the shape " + shape_text(shape) + ", not " + shape_text({count}));
    }

    KnownValue find_conv() const {
        require_map();
        check_weight(4);
        const std::vector<int64_t>& shape = weight_shape();
        if (shape[0] % operation_.groups != 0) refuse("its groups do not divide its outputs");
        require_channels(shape[1] * operation_.groups, "it");
        return {true, shape[0], -1};
    }

    KnownValue find_linear() const {
        if (first_.is_map) refuse("its input is a map, not a vector");
        check_weight(2);
        require_channels(weight_shape()[1], "it");
        return {false, weight_shape()[0], 1};
    }

    KnownValue find_pair() const {
        const KnownValue& second = in_[1];
        if (first_.is_map != second.is_map) refuse("one of its inputs is a map, the other a vector");
        if (first_.channels < 0) return {first_.is_map, second.channels, first_.pixels};
        if (second.channels >= 0 && second.channels != first_.channels) {
            refuse("its inputs have " + count_text(first_.channels, first_.is_map) + " and " +
                   std::to_string(second.channels));
        }
        return first_;
    }

    KnownValue find_affine() const {
        const FloatTensor& scale = weights_.floats.at(operation_.scale);
        const int64_t channels = static_cast<int64_t>(scale.values.size());
        check_floats(operation_.scale, "scale", channels);
        check_floats(operation_.shift, "shift", channels);
        require_channels(channels, "it");
        return {first_.is_map, channels, first_.pixels};
    }

    KnownValue resized(int64_t pixels) const {
        require_map();
        return {true, first_.channels, pixels};
    }

    KnownValue find_pad() const {
        const int64_t* padding = operation_.padding;
        const bool is_wide = std::any_of(padding, padding + 4, [](int64_t side) { return side > 0; });
        if (is_wide) require_map();
        const int64_t channels = first_.channels < 0 ? -1 : first_.channels + padding[4] + padding[5];
        return {first_.is_map, channels, is_wide ? -1 : first_.pixels};
    }

    KnownValue find_slice() const {
        if (operation_.axis != 1) {
            require_map();
            return {true, first_.channels, -1};
        }
        if (first_.channels < 0) return first_;
        const int64_t stop = operation_.stop < 0 ? first_.channels : std::min(operation_.stop, first_.channels);
        if (operation_.start >= stop) refuse("it takes nothing of " + count_text(first_.channels, first_.is_map));
        const int64_t taken = (stop - operation_.start + operation_.step - 1) / operation_.step;
        return {first_.is_map, taken, first_.pixels};
    }

    KnownValue find_flatten() const {
        if (!first_.is_map) return first_;
        if (first_.pixels < 0) return {false, -1, 1};
        if (first_.pixels > MOST_CHANNELS / first_.channels) refuse("it gives too many features");
        return {false, first_.channels * first_.pixels, 1};
    }

    KnownValue find_concat() const {
        KnownValue all = first_;
        all.channels = 0;
        for (const KnownValue& value : in_) {
            if (value.is_map != first_.is_map) refuse("some of its inputs are maps, others vectors");
            all.channels = all.channels < 0 || value.channels < 0 ? -1 : all.channels + value.channels;
        }
        return all;
    }

    const Operation& operation_;
    const std::vector<KnownValue>& in_;
    const StoredWeights& weights_;
    const KnownValue& first_;
};

}  // namespace

KnownValue known_output(const Operation& operation, const std::vector<KnownValue>& in, const StoredWeights& weights) {
    return KnownOutput(operation, in, weights).find();
}

}  // namespace binaryrelax
