// Reads and writes of every call, as the contracts in kernels.hpp state them, and the order they ask for.
#include "kernels/access.hpp"

namespace zp::kernels {
namespace {

constexpr Access kRead = Access::read, kWritten = Access::written;

// Calls and views are const or not together.
template <class Visit>
struct Views {
  const Visit& visit;

  template <class... V>
  void read(V&... views) const {
    (visit(views, kRead), ...);
  }
  template <class... V>
  void written(V&... views) const {
    (visit(views, kWritten), ...);
  }
};

template <class C, class Visit>
void views_of(C& call, const Views<Visit>& are) {
  using Kind = std::remove_const_t<C>;
  if constexpr (std::is_same_v<Kind, Gemm>) {
    are.read(call.a, call.b);
    are.written(call.c);
  } else if constexpr (std::is_same_v<Kind, AddBias>) {
    are.read(call.x, call.bias);
    are.written(call.y);
  } else if constexpr (std::is_same_v<Kind, BiasBackward>) {
    are.read(call.dy);
    are.written(call.dbias);
  } else if constexpr (std::is_same_v<Kind, LayerNormForward>) {
    are.read(call.x, call.gain, call.bias);
    are.written(call.y, call.mean, call.rstd);
  } else if constexpr (std::is_same_v<Kind, LayerNormBackward>) {
    are.read(call.x, call.gain, call.mean, call.rstd, call.dy);
    are.written(call.dx, call.dgain, call.dbias);
  } else if constexpr (std::is_same_v<Kind, AttentionForward>) {
    are.read(call.qkv);
    are.written(call.out, call.row_max, call.row_sum);
  } else if constexpr (std::is_same_v<Kind, AttentionBackward>) {
    are.read(call.qkv, call.row_max, call.row_sum, call.dout);
    are.written(call.dqkv);
  } else if constexpr (std::is_same_v<Kind, GeluForward>) {
    are.read(call.x);
    are.written(call.y);
  } else if constexpr (std::is_same_v<Kind, GeluBackward>) {
    are.read(call.x, call.dy);
    are.written(call.dx);
  } else if constexpr (std::is_same_v<Kind, Add>) {
    are.read(call.a, call.b);
    are.written(call.y);
  } else {
    state_views_of(call, are);
  }
}

template <class C, class Visit>
void state_views_of(C& call, const Views<Visit>& are) {
  using Kind = std::remove_const_t<C>;
  if constexpr (std::is_same_v<Kind, EmbeddingForward>) {
    are.read(call.tokens, call.token, call.position);
    are.written(call.x);
  } else if constexpr (std::is_same_v<Kind, EmbeddingBackward>) {
    are.read(call.tokens, call.dx);
    are.written(call.dtoken, call.dposition);
  } else if constexpr (std::is_same_v<Kind, CrossEntropyForward>) {
    are.read(call.logits, call.targets);
    are.written(call.row_max, call.row_sum, call.row_loss, call.loss);
  } else if constexpr (std::is_same_v<Kind, CrossEntropyBackward>) {
    are.read(call.targets, call.row_max, call.row_sum);
    are.written(call.logits);
  } else if constexpr (std::is_same_v<Kind, Cast> || std::is_same_v<Kind, ToFixed>) {
    are.read(call.from);
    are.written(call.to);
  } else if constexpr (std::is_same_v<Kind, Fold>) {
    for (auto& input : call.inputs) are.read(input);
    are.written(call.out);
  } else if constexpr (std::is_same_v<Kind, AdamW>) {
    are.read(call.grads);
    are.written(call.master, call.m, call.v);
  } else if constexpr (std::is_same_v<Kind, Sgd>) {
    are.read(call.grads);
    are.written(call.master, call.m);
  } else if constexpr (std::is_same_v<Kind, SquareSum>) {
    are.read(call.grads);
  } else if constexpr (std::is_same_v<Kind, HashRun>) {
    are.read(call.x);
  } else if constexpr (std::is_same_v<Kind, Initialize>) {
    are.written(call.x);
  } else {
    static_assert(std::is_same_v<Kind, SyntheticGradient>, "a new kernel says here what it reads and writes");
    are.written(call.grads);
  }
}

class OrderedTable final : public Table {
 public:
  OrderedTable(std::unique_ptr<Table> inner, Stream& stream) : inner_(std::move(inner)), stream_(stream) {}
  ~OrderedTable() override {
    try {
      stream_.mark()->wait();  // the inner table's own memory may be in use
    } catch (const Error&) {
      // A device that failed has said so to whoever waited for its results.
    }
  }

  void set_poll(const std::function<void()>& poll) override { poll_ = poll; }

  void run(const Call& call) override {
    for_each_view(call, [this](const View& view, Access access) {
      if (view.empty()) return;
      if (access == Access::written) {
        view.storage()->settle(&stream_);
      } else {
        view.storage()->settle_writers(&stream_);
      }
    });
    try {
      inner_->run(call);
    } catch (...) {
      enlist(call);
      throw;
    }
    enlist(call);
    if (poll_) poll_();
  }

 private:
  void enlist(const Call& call) {
    const std::shared_ptr<Pending> work = stream_.mark();
    // Written last: of a buffer that is read and written, the call is the writer.
    for (const Access now : {Access::read, Access::written}) {
      for_each_view(call, [&](const View& view, Access access) {
        if (view.empty() || access != now) return;
        if (access == Access::written) {
          view.storage()->written_by(work);
        } else {
          view.storage()->read_by(work);
        }
      });
    }
  }

  std::unique_ptr<Table> inner_;
  Stream& stream_;
  std::function<void()> poll_;
};

}  // namespace

void for_each_view(const Call& call, const std::function<void(const View&, Access)>& visit) {
  std::visit([&](const auto& one) { views_of(one, Views<std::decay_t<decltype(visit)>>{visit}); }, call);
}

void for_each_view(Call& call, const std::function<void(View&, Access)>& visit) {
  std::visit([&](auto& one) { views_of(one, Views<std::decay_t<decltype(visit)>>{visit}); }, call);
}

std::unique_ptr<Table> make_ordered_table(std::unique_ptr<Table> inner, Stream& stream) {
  return std::make_unique<OrderedTable>(std::move(inner), stream);
}

}  // namespace zp::kernels
