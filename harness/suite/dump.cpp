// The numbers of every stage as NumPy reads them.
#include "harness/suite/dump.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "harness/base/archive.hpp"
#include "harness/device/host_access.hpp"

namespace zp {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "dumps are little-endian, as memory is");

// NumPy's name of a type. It has no bf16: the bits are written as they are.
std::string_view numpy_type(Type type) {
  switch (type) {
    case Type::f32: return "<f4";
    case Type::bf16: return "<u2";
    case Type::i32: return "<i4";
    case Type::i64: return "<i8";
  }
  return "?";
}

std::string_view short_name(HashKind kind) {
  switch (kind) {
    case HashKind::param: return "param";
    case HashKind::master: return "master";
    case HashKind::m: return "m";
    case HashKind::v: return "v";
    case HashKind::grad: return "averaged";
  }
  return "?";
}

// Version 1.0 of the format: a magic number, the length of the text, and the text, padded so that data begin
// at a multiple of 64 bytes.
std::string npy_header(std::string_view type, const std::vector<int64_t>& shape) {
  constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
  constexpr size_t kAlignment = 64;
  const std::string comma = shape.size() == 1 ? "," : "";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), comma);
  const size_t before = kMagic.size() + sizeof(uint16_t);
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header.append(reinterpret_cast<const char*>(&length), sizeof length);
  return header + text;
}

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& why) {
  fail(Exit::usage, "--dump " + folder + ": " + why);
}

std::string step_folder(int step) {
  return step == Observer::kBeforeTraining ? "initial" : fmt::format("step.{}", step);
}

}  // namespace

struct Dump::Contents {
  std::span<const std::byte> bytes;
  std::string_view numpy_type;
};

void check_dump_folder(const std::string& folder) {
  std::error_code error;
  const fs::path path(folder);
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) refuse_folder(folder, "is no folder; name a new one");
    if (!fs::is_empty(path, error) || error) {
      refuse_folder(folder, "is a folder that is not empty, and is left alone; name a new one");
    }
    if (access(folder.c_str(), W_OK | X_OK) != 0) refuse_folder(folder, std::strerror(errno));
    return;
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    refuse_folder(folder, "there is no folder " + parent.string() + "; make it first");
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    refuse_folder(folder, "folder " + parent.string() + " cannot be written (" + std::strerror(errno) + ")");
  }
}

void make_dump_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) refuse_folder(folder, "cannot be made (" + error.message() + ")");
  // Ranks try at once, each with a file of its own.
  std::string probe = (fs::path(folder) / "probe.XXXXXX").string();
  const int file = mkstemp(probe.data());
  if (file < 0) refuse_folder(folder, std::string("cannot be written (") + std::strerror(errno) + ")");
  close(file);
  fs::remove(probe, error);
}

void Dump::write(DumpedArray array, const Contents& contents) {
  array.stage = stage_;
  array.rank = rank_;
  const fs::path path = fs::path(folder_) / stage_ / array.file;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    refuse_folder(folder_, path.parent_path().string() + " cannot be made (" + error.message() + ")");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << npy_header(contents.numpy_type, array.shape);
  file.write(reinterpret_cast<const char*>(contents.bytes.data()), std::ssize(contents.bytes));
  file.close();
  if (!file) refuse_folder(folder_, path.string() + " cannot be written (" + std::strerror(errno) + ")");
  array.file = stage_ + "/" + array.file;
  written_.push_back(std::move(array));
}

void Dump::state(int step, const StateRun& run) {
  for (const TensorRun& part : runs(layout_.unit(run.unit), run.in_unit)) {
    const View view =
        run.view.part({part.in_unit.begin - run.in_unit.begin, part.in_unit.end - run.in_unit.begin});
    const HostBytes held(view);
    const std::string& tensor = part.tensor->spec.name;
    const std::string kind(short_name(run.kind));
    write({.file = fmt::format("{}/{}.{}.rank{}.npy", step_folder(step), kind, tensor, rank_),
           .kind = kind,
           .tensor = tensor,
           .type = std::string(name_of(view.type())),
           .step = step,
           .first = (part.in_unit.begin - part.tensor->in_unit.begin).n,
           .shape = {view.length().n}},
          {held.bytes(), numpy_type(view.type())});
  }
}

void Dump::gradient(int step, int number, int unit, const View& whole) {
  for (const TensorLayout& tensor : layout_.unit(unit).tensors) {
    const View view = whole.part(tensor.in_unit);
    const HostBytes held(view);
    write({.file =
               fmt::format("{}/micro-batch.{}/gradient.{}.npy", step_folder(step), number, tensor.spec.name),
           .kind = "gradient",
           .tensor = tensor.spec.name,
           .type = std::string(name_of(view.type())),
           .step = step,
           .micro_batch = number,
           .first = 0,
           .shape = tensor.spec.shape},
          {held.bytes(), numpy_type(view.type())});
  }
}

void Dump::micro_batch(int step, int number, const MicroBatch& tokens, float loss) {
  const auto put = [&](const std::string& kind, Type type, std::vector<int64_t> shape,
                       std::span<const std::byte> bytes) {
    write({.file = fmt::format("{}/micro-batch.{}/{}.npy", step_folder(step), number, kind),
           .kind = kind,
           .type = std::string(name_of(type)),
           .step = step,
           .micro_batch = number,
           .shape = std::move(shape)},
          {bytes, numpy_type(type)});
  };
  for (const auto& [kind, list] :
       {std::pair{"inputs", &tokens.inputs}, std::pair{"targets", &tokens.targets}}) {
    put(kind, Type::i32, {std::ssize(*list)}, std::as_bytes(std::span(*list)));
  }
  put("loss", Type::f32, {}, std::as_bytes(std::span(&loss, 1)));
}

void Dump::totals(int step, double loss, double norm) {
  if (rank_ != 0) return;
  for (const auto& [kind, value] : {std::pair{"mean-loss", loss}, std::pair{"norm", norm}}) {
    write({.file = fmt::format("{}/{}.npy", step_folder(step), kind),
           .kind = kind,
           .type = "fp64",
           .step = step,
           .shape = {}},
          {std::as_bytes(std::span(&value, 1)), "<f8"});
  }
}

std::vector<DumpedArray> Dump::collect(Control& control) const {
  std::vector<DumpedArray> all;
  for (const std::string& text : control.all_gather(to_bytes(written_))) {
    if (control.rank() != 0) continue;
    for (DumpedArray& array : from_bytes<std::vector<DumpedArray>>(text)) all.push_back(std::move(array));
  }
  return all;
}

}  // namespace zp
