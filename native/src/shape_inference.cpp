// What shape every value has for given inputs, and whether the inputs fit. The reader has checked what does not
// depend on their size; this checks the rest, so that no operation needs to.
#include <cmath>
#include <stdexcept>
#include <string>

#include "float_operations.hpp"

namespace binaryrelax {
namespace {

const char* kind_name(OperationKind kind) {
    switch (kind) {
        case OperationKind::Conv: return "conv";
        case OperationKind::Linear: return "linear";
        case OperationKind::Activate: return "activate";
        case OperationKind::Add: return "add";
        case OperationKind::Multiply: return "multiply";
        case OperationKind::Affine: return "affine";
        case OperationKind::Pool: return "pool";
        case OperationKind::AdaptivePool: return "adaptive_pool";
        case OperationKind::Pad: return "pad";
        case OperationKind::Slice: return "slice";
        case OperationKind::Flatten: return "flatten";
        case OperationKind::Concat: return "concat";
        case OperationKind::Upsample: return "upsample";
        case OperationKind::Softmax: return "softmax";
    }
    return "operation";
}

std::string text(int64_t number) { return std::to_string(number); }

std::string text(const Shape& shape) {
    const std::string first = "(" + text(shape.images) + ", " + text(shape.channels);
    return first + (shape.is_map ? ", " + text(shape.height) + ", " + text(shape.width) + ")" : ")");
}

bool same(const Shape& a, const Shape& b) {
    return a.is_map == b.is_map && a.images == b.images && a.height == b.height && a.width == b.width &&
           a.channels == b.channels;
}

// a * b, or `most` + 1 where that is more than `most`; both are at least 0.
int64_t multiply_up_to(int64_t most, int64_t a, int64_t b) { return a != 0 && b > most / a ? most + 1 : a * b; }

int64_t count_up_to(int64_t most, const Shape& shape) {
    const int64_t pixels = multiply_up_to(most, shape.height, shape.width);
    // Of no images every number must still be within reason.
    const int64_t image = pixels > most ? pixels : multiply_up_to(most, pixels, shape.channels);
    return image > most ? image : multiply_up_to(most, image, shape.images > 1 ? shape.images : 1);
}

class ShapeOfOperation {
  public:
    ShapeOfOperation(const Operation& operation, const NetworkFile& file, const std::vector<Shape>& values,
                     int64_t most_values)
        : operation_(operation), file_(file), most_values_(most_values) {
        for (const int value : operation.in) in_.push_back(values.at(static_cast<size_t>(value)));
        if (in_.empty()) refuse("needs an input");
    }

    Shape infer() const {
        const Shape shape = infer_any();
        if (shape.height < 1 || shape.width < 1 || shape.channels < 1) refuse("gives no values for " + text(in_[0]));
        require_few(shape, "its output");
        return shape;
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw std::invalid_argument(operation_.name + " (" + kind_name(operation_.kind) + "): " + why);
    }

    void require_few(const Shape& shape, const std::string& what) const {
        if (count_up_to(most_values_, shape) <= most_values_) return;
        refuse(what + " would be " + text(shape) + ", which is more than " + text(most_values_) +
               " numbers; give fewer or smaller images");
    }

    void require_map(const Shape& shape) const {
        if (!shape.is_map) refuse("takes maps (N, C, H, W), not " + text(shape));
    }

    void require_channels(int64_t channels) const {
        if (in_[0].channels == channels) return;
        refuse("takes " + text(channels) + (in_[0].is_map ? " channels" : " features") + ", not " + text(in_[0]));
    }

    const std::vector<int64_t>& weight_shape() const {
        return operation_.packed ? file_.packed.at(operation_.weight).shape : file_.floats.at(operation_.weight).shape;
    }

    Shape infer_any() const {
        switch (operation_.kind) {
            case OperationKind::Conv: return infer_conv();
            case OperationKind::Linear: return infer_linear();
            case OperationKind::Activate:
            case OperationKind::Softmax: return in_[0];
            case OperationKind::Add:
            case OperationKind::Multiply: return infer_pair();
            case OperationKind::Affine: return infer_affine();
            case OperationKind::Pool: return infer_pool();
            case OperationKind::AdaptivePool: return infer_adaptive_pool();
            case OperationKind::Pad: return infer_pad();
            case OperationKind::Slice: return infer_slice();
            case OperationKind::Flatten:
                return {in_[0].images, 1, 1, in_[0].height * in_[0].width * in_[0].channels, false};
            case OperationKind::Concat: return infer_concat();
            case OperationKind::Upsample: return infer_upsample();
        }
        refuse("is unknown");
    }

    Shape infer_conv() const {
        require_map(in_[0]);
        const std::vector<int64_t>& weight = weight_shape();
        require_channels(weight.at(1) * operation_.groups);
        require_few(padded(), "with its padding the input");
        const int64_t height = conv_outputs(0, in_[0].height, weight.at(2));
        const int64_t width = conv_outputs(1, in_[0].width, weight.at(3));
        return {in_[0].images, height, width, weight.at(0), true};
    }

    Shape padded() const {
        const int64_t* padding = operation_.padding;
        Shape shape = in_[0];
        shape.height += padding[0] + padding[1];
        shape.width += padding[2] + padding[3];
        shape.channels += padding[4] + padding[5];
        return shape;
    }

    int64_t span(int axis, int64_t kernel) const { return operation_.dilation[axis] * (kernel - 1) + 1; }

    int64_t conv_outputs(int axis, int64_t inputs, int64_t kernel) const {
        const int64_t with_padding = inputs + operation_.padding[2 * axis] + operation_.padding[2 * axis + 1];
        const int64_t room = with_padding - span(axis, kernel);
        if (room < 0) refuse_small(axis, with_padding, span(axis, kernel));
        return room / operation_.stride[axis] + 1;
    }

    [[noreturn]] void refuse_small(int axis, int64_t with_padding, int64_t span) const {
        const std::string places = axis == 0 ? " rows" : " columns";
        refuse("its kernel spans " + text(span) + places + ", but the input " + text(in_[0]) + " has only " +
               text(with_padding) + " with padding; give larger images");
    }

    Shape infer_linear() const {
        if (in_[0].is_map) refuse("takes vectors (N, F), not " + text(in_[0]));
        require_channels(weight_shape().at(1));
        return {in_[0].images, 1, 1, weight_shape().at(0), false};
    }

    Shape infer_pair() const {
        require_two();
        const bool pixel = operation_.kind == OperationKind::Multiply && in_[0].is_map && in_[1].is_map &&
                           in_[1].height == 1 && in_[1].width == 1 && in_[1].images == in_[0].images &&
                           in_[1].channels == in_[0].channels;
        if (!pixel && !same(in_[0], in_[1])) {
            refuse("its inputs differ for images of this size: " + text(in_[0]) + " and " + text(in_[1]));
        }
        return in_[0];
    }

    void require_two() const {
        if (in_.size() != 2) refuse("takes 2 inputs, not " + text(static_cast<int64_t>(in_.size())));
    }

    Shape infer_affine() const {
        const auto channels = static_cast<int64_t>(file_.floats.at(operation_.scale).values.size());
        require_channels(channels);
        return in_[0];
    }

    Shape infer_pool() const {
        require_map(in_[0]);
        return {in_[0].images, pool_outputs(0, in_[0].height), pool_outputs(1, in_[0].width), in_[0].channels, true};
    }

    int64_t pool_outputs(int axis, int64_t inputs) const {
        const int64_t before = operation_.padding[2 * axis], after = operation_.padding[2 * axis + 1];
        const int64_t stride = operation_.stride[axis], kernel = operation_.kernel[axis];
        const int64_t reach = operation_.maximum ? span(axis, kernel) : kernel;
        const int64_t room = inputs + before + after - reach + (operation_.ceil ? stride - 1 : 0);
        if (room < 0) refuse_small(axis, inputs + before + after, reach);
        const int64_t outputs = room / stride + 1;
        // The last window must start in the image or in the padding before it.
        return operation_.ceil && (outputs - 1) * stride >= inputs + before ? outputs - 1 : outputs;
    }

    Shape infer_adaptive_pool() const {
        require_map(in_[0]);
        return {in_[0].images, operation_.size[0], operation_.size[1], in_[0].channels, true};
    }

    Shape infer_pad() const {
        const int64_t* padding = operation_.padding;
        if (padding[0] + padding[1] + padding[2] + padding[3] > 0) require_map(in_[0]);
        return padded();
    }

    Shape infer_slice() const {
        if (operation_.axis != 1) require_map(in_[0]);
        Shape shape = in_[0];
        int64_t& size = operation_.axis == 1 ? shape.channels : operation_.axis == 2 ? shape.height : shape.width;
        const int64_t stop = operation_.stop < 0 || operation_.stop > size ? size : operation_.stop;
        if (operation_.start >= stop) {
            refuse("takes " + text(operation_.start) + " to " + text(stop) + " of axis " + text(operation_.axis) +
                   ", which is nothing of " + text(in_[0]));
        }
        size = (stop - operation_.start + operation_.step - 1) / operation_.step;
        return shape;
    }

    Shape infer_concat() const {
        Shape all = in_[0];
        for (size_t i = 1; i < in_.size(); ++i) {
            Shape next = in_[i];
            next.channels = in_[0].channels;
            if (!same(in_[0], next)) {
                refuse("its inputs differ in more than channels for images of this size: " + text(in_[0]) + " and " +
                       text(in_[i]));
            }
            all.channels += in_[i].channels;
        }
        return all;
    }

    Shape infer_upsample() const {
        require_map(in_[0]);
        return {in_[0].images, upsampled(0, in_[0].height), upsampled(1, in_[0].width), in_[0].channels, true};
    }

    int64_t upsampled(int axis, int64_t inputs) const {
        if (operation_.has_size) return operation_.size[axis];
        const double outputs = std::floor(static_cast<double>(inputs) * operation_.factors[axis]);
        if (outputs >= 1.0 && outputs <= static_cast<double>(most_values_)) return static_cast<int64_t>(outputs);
        refuse("a factor of " + std::to_string(operation_.factors[axis]) + " does not suit " + text(in_[0]));
    }

    const Operation& operation_;
    const NetworkFile& file_;
    const int64_t most_values_;
    std::vector<Shape> in_;
};

void check_inputs(const NetworkFile& file, const std::vector<Shape>& inputs, int64_t most_values) {
    if (inputs.size() != file.inputs.size()) {
        throw std::invalid_argument("the network takes " + text(static_cast<int64_t>(file.inputs.size())) +
                                    " inputs, not " + text(static_cast<int64_t>(inputs.size())));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        const std::string name = "input " + text(static_cast<int64_t>(i)) + ": ";
        const Shape& shape = inputs[i];
        const bool is_map = file.inputs[i].size() == 3;
        const std::string wanted = "(N, " + text(file.inputs[i].at(0)) + (is_map ? ", H, W)" : ")");
        const bool is_empty = shape.images < 0 || shape.height < 1 || shape.width < 1;
        if (shape.is_map != is_map || shape.channels != file.inputs[i].at(0) || is_empty) {
            throw std::invalid_argument(name + "must be " + wanted + ", not " + text(shape));
        }
        if (count_up_to(most_values, shape) > most_values) {
            throw std::invalid_argument(name + text(shape) + " is more than " + text(most_values) + " numbers");
        }
    }
}

}  // namespace

std::vector<Shape> infer_shapes(const NetworkFile& file, const std::vector<Shape>& inputs, int64_t most_values) {
    check_inputs(file, inputs, most_values);
    std::vector<Shape> values = inputs;
    for (const Operation& operation : file.operations) {
        values.push_back(ShapeOfOperation(operation, file, values, most_values).infer());
    }
    return values;
}

}  // namespace binaryrelax
