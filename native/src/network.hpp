// A network that was read from a file, ready to run: its layers re-tiled for the CPU, and a plan for every size of
// input that was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "network_file.hpp"
#include "network_layers.hpp"
#include "plan.hpp"

namespace binaryrelax {

struct StepTime {
    std::string name;
    double seconds;
};

class Network {
  public:
    // Throws std::invalid_argument where the file's operations do not fit the example's shapes.
    Network(NetworkFile file, const Kernels& kernels, int threads, int64_t most_bytes);
    Network(const Network&) = delete;
    ~Network();

    bool is_fast() const { return layers_.file().fast; }
    size_t num_inputs() const { return layers_.file().inputs.size(); }
    const NetworkFile& file() const { return layers_.file(); }
    const Kernels& kernels() const { return layers_.kernels(); }
    int threads() const { return threads_; }
    int64_t weight_bytes() const { return layers_.bytes(); }

    // All inputs of a call are of one batch.
    // Shapes of the outputs for inputs of these shapes; throws std::invalid_argument where they do not fit.
    std::vector<Shape> output_shapes(const std::vector<Shape>& inputs);
    int64_t bytes_of_call(const std::vector<Shape>& inputs);  // of memory, beside the weights

    // Inputs and outputs as torch lays them out (NCHW). Any number of threads may call this at once. With `times`,
    // one thread does everything, and says how long each step took.
    void run(const std::vector<Shape>& shapes, const float* const* inputs, float* const* outputs,
             std::vector<StepTime>* times = nullptr);

  private:
    struct Workspace;  // the memory of one call
    struct Division {
        std::vector<Shape> part;  // of the inputs, that is computed together
        bool is_alone;            // one thread does each such part; else all threads share the work of the whole batch
    };

    Division divide(const std::vector<Shape>& inputs);
    std::shared_ptr<const Plan> plan_for(const std::vector<Shape>& shapes, int threads);
    void run_alone(const std::vector<Shape>& shapes, int64_t images, const float* const* inputs,
                   float* const* outputs);
    std::unique_ptr<Workspace> take_workspace(const Plan& plan);
    void give_back(std::unique_ptr<Workspace> workspace);

    NetworkLayers layers_;
    const int threads_;
    const int64_t most_bytes_;
    // One thread at a time looks at these.
    std::map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans_;
    std::vector<std::unique_ptr<Workspace>> workspaces_;
};

}  // namespace binaryrelax
