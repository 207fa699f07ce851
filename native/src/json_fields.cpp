#include "json_fields.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace binaryrelax {

Fields::Fields(const Json& object, std::string where)
    : members_(object.object()), object_(&object), where_(std::move(where)) {
    if (!members_) throw std::invalid_argument(where_ + " is no JSON object");
}

void Fields::fail(const std::string& problem) const { throw std::invalid_argument(where_ + ": " + problem); }

const Json* Fields::find(const char* name) {
    const Json* found = object_->find(name);
    if (found) known_.push_back(found);
    return found;
}

const Json& Fields::need(const char* name) {
    const Json* found = find(name);
    if (!found) fail("it has no " + quoted(name));
    return *found;
}

const std::string& Fields::text(const char* name) {
    const std::string* text = need(name).text();
    if (!text) fail(quoted(name) + " is no text");
    return *text;
}

const Json::List& Fields::list(const char* name) {
    const Json::List* list = need(name).list();
    if (!list) fail(quoted(name) + " is no list");
    return *list;
}

const Json::Object& Fields::object(const char* name) {
    const Json::Object* object = need(name).object();
    if (!object) fail(quoted(name) + " is no object");
    return *object;
}

int64_t Fields::integer(const char* name, int64_t least, int64_t most) {
    const int64_t* value = need(name).integer();
    if (!value || *value < least || *value > most) {
        fail(quoted(name) + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return *value;
}

int Fields::choice(const char* name, std::initializer_list<const char*> choices) {
    const std::string& chosen = text(name);
    int place = 0;
    for (const char* choice : choices) {
        if (chosen == choice) return place;
        ++place;
    }
    fail(quoted(name) + " is " + quoted(chosen) + ", which is unknown");
}

bool Fields::boolean(const char* name, bool otherwise) {
    const Json* found = find(name);
    if (!found) return otherwise;
    if (!found->boolean()) fail(quoted(name) + " is neither true nor false");
    return *found->boolean();
}

void Fields::read_integers(const char* name, int64_t* values, size_t count, int64_t least, int64_t most) {
    const Json* found = find(name);
    if (!found) return;
    const Json::List* list = found->list();
    const auto fits = [&](const Json& item) {
        return item.integer() && *item.integer() >= least && *item.integer() <= most;
    };
    if (!list || list->size() != count || !std::all_of(list->begin(), list->end(), fits)) {
        fail(quoted(name) + " is not " + std::to_string(count) + " whole numbers from " + std::to_string(least) +
             " to " + std::to_string(most));
    }
    for (size_t i = 0; i < count; ++i) values[i] = *(*list)[i].integer();
}

float Fields::number(const char* name) { return checked_float(need(name), where_ + ": " + quoted(name)); }

void Fields::finish() const {
    for (const Json::Member& member : *members_) {
        if (std::find(known_.begin(), known_.end(), &member.value) == known_.end()) {
            fail("it has the unknown key " + quoted(member.name));
        }
    }
}

float checked_float(const Json& value, const std::string& where) {
    const std::optional<double> number = value.number();
    if (!number || std::abs(*number) > std::numeric_limits<float>::max()) {
        throw std::invalid_argument(where + " is no float32");
    }
    return static_cast<float>(*number);
}

}  // namespace binaryrelax
