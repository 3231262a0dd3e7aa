// Which views a call reads and which it writes: what has to be over before it may run, and who has to wait
// for it. A view that is read and written counts as written.
#pragma once

#include <functional>
#include <memory>

#include "kernels/kernels.hpp"

namespace zp::kernels {

enum class Access { read, written };

// visit(view, access) for every view of the call, empty ones too.
void for_each_view(const Call& call, const std::function<void(const View&, Access)>& visit);
void for_each_view(Call& call, const std::function<void(View&, Access)>& visit);

// `inner`, whose calls run on `stream`, in order with everything else that uses their buffers: the stream
// waits for it before a call, and the call is registered with the buffers. Polls after every call. `stream`
// must outlive the table.
std::unique_ptr<Table> make_ordered_table(std::unique_ptr<Table> inner, Stream& stream);

}  // namespace zp::kernels
