// Recipes by name.
#include "harness/base/type.hpp"

#include <string>

#include "harness/base/check.hpp"

namespace zp {

Recipe recipe_named(std::string_view name) {
  std::string known;
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == name) return recipe;
    known.append(known.empty() ? "" : ", ").append(recipe.name);
  }
  std::string line = "--recipe '";
  line.append(name).append("': is unknown; there are ").append(known);
  fail(Exit::usage, line);
}

}  // namespace zp
