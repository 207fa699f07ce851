// Mode exact: a layer of one tap and the filter of its channels in one step, so that what is between them stays in the
// caches. Each sum is the same as in two steps.
#pragma once

#include "float_product.hpp"

namespace binaryrelax {

class ExpandedFilter {
  public:
    ExpandedFilter(const PanelProduct& product, const PanelFilter& filter, const Shape& between, const Shape& out);

    // Whether the map between them would not stay in a core's cache.
    static bool pays(const PanelProduct& product, const PanelFilter& filter, const Shape& between);

    int64_t units() const { return product_.num_panels() * bands_.per_image * out_.images; }
    int64_t room() const;  // bytes of a thread's own memory
    void run(const ConstMap& x, const Map& y, int64_t unit) const;

  private:
    const PanelProduct& product_;
    const PanelFilter& filter_;
    const Shape between_, out_;
    const Bands bands_;
};

}  // namespace binaryrelax
