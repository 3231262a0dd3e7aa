// Whether the address sanitizer is on: g++ says so in one way, clang in another.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ZP_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZP_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef ZP_ADDRESS_SANITIZER
#define ZP_ADDRESS_SANITIZER 0
#endif
