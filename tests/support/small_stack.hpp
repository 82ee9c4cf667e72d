// A thread with little stack, on which whatever a call puts there shows.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace heed::test {

/// Runs `body` on a thread with a stack of 128 KiB.
template <class Body>
void on_a_small_stack(Body body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* context) -> void* {
                  (*static_cast<Body*>(context))();
                  return nullptr;
                },
                &body),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace heed::test
