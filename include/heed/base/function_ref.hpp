// function_ref: a functor with its type forgotten, so that what calls it is compiled once for all of them.
#pragma once

#include "heed/base/config.hpp"

namespace heed::detail {

template <class Signature>
class function_ref;

/// A reference to a functor of that signature, which must outlive the calls.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  // Implicit: a lambda is written where it is handed over.
  template <class Function>
  HEED_INLINE function_ref(Function const& function) noexcept  // NOLINT
      : function_(&function), call_([](void const* self, Arguments... given) -> Result {
          return (*static_cast<Function const*>(self))(given...);
        }) {}

  HEED_INLINE Result operator()(Arguments... given) const { return call_(function_, given...); }

 private:
  void const* function_;
  Result (*call_)(void const* function, Arguments... given);
};

}  // namespace heed::detail
