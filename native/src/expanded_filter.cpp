#include "expanded_filter.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t LEAST_BYTES = 1 << 20;  // of a map that is worth not writing
constexpr int64_t BAND_BYTES = 1 << 18;   // of a panel's rows, to stay in a core's L2 cache beside what they are made of
constexpr int64_t FEWEST_BANDS = 4;       // so that threads have work

thread_local AlignedBuffer<float> thread_rows;

// Pixels do not lie at powers of two: their channels would fall on one another in the L1 cache.
int64_t pixel_stride(const PanelFilter& filter) { return std::min<int64_t>(PANEL, filter.channels()) + LANES; }

// Rows of the output that read no more than fits.
int64_t band_rows(const PanelFilter& filter, const Shape& between, const Shape& out) {
    const int64_t row_bytes = pixel_stride(filter) * between.width * int64_t{sizeof(float)};
    int64_t rows = divide_up(out.height, FEWEST_BANDS);
    while (rows > 1 && (filter.end_input(rows) - filter.first_input(0)) * row_bytes > BAND_BYTES) --rows;
    return rows;
}

}  // namespace

ExpandedFilter::ExpandedFilter(const PanelProduct& product, const PanelFilter& filter, const Shape& between,
                               const Shape& out)
    : product_(product), filter_(filter), between_(between), out_(out), bands_(out.height, band_rows(filter, between, out)) {}

bool ExpandedFilter::pays(const PanelProduct& product, const PanelFilter& filter, const Shape& between) {
    const int64_t bytes = between.height * between.width * between.channels * int64_t{sizeof(float)};
    return bytes >= LEAST_BYTES && product.num_panels() == divide_up(filter.channels(), PANEL);
}

int64_t ExpandedFilter::room() const {
    const int64_t rows = std::min(between_.height, filter_.end_input(bands_.rows) - filter_.first_input(0));
    return rows * between_.width * pixel_stride(filter_) * int64_t{sizeof(float)};
}

void ExpandedFilter::run(const ConstMap& x, const Map& y, int64_t unit) const {
    const int64_t panel = unit % product_.num_panels(), band = unit / product_.num_panels();
    const int64_t image = bands_.image(band), row = bands_.first_row(band), rows = bands_.num_rows(band);
    const int64_t first = std::max<int64_t>(0, filter_.first_input(row));
    const int64_t end = std::max(first, std::min(between_.height, filter_.end_input(row + rows)));
    const int64_t lanes = std::min<int64_t>(PANEL, filter_.channels() - panel * PANEL), stride = pixel_stride(filter_);
    float* between = thread_rows.reserve(room() / int64_t{sizeof(float)});
    product_.run_panel(x.row(image * between_.height + first), (end - first) * between_.width, panel, between, stride);
    filter_.run_panel({between, first, end - first, between_.width, stride, panel * PANEL, lanes},
                      y.row(image * out_.height + row), row, rows, out_.width);
}

}  // namespace binaryrelax
