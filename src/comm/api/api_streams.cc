// The C functions of streams.
#include "comm/api/handle.h"

using tutti::Code;
using tutti::Status;

namespace {

template <class Create>
tuttiResult_t make_stream(tuttiStream_t* stream, const Create& create) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(stream, "stream"));
    *stream = nullptr;
    TUTTI_TRY(tutti::hub_refusal());
    std::shared_ptr<tutti::Stream> made;
    TUTTI_TRY(create(&made));
    *stream = new tuttiStream;
    (*stream)->stream = std::move(made);
    return {};
  });
}

}  // namespace

extern "C" {

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return make_stream(stream, [](std::shared_ptr<tutti::Stream>* made) { return tutti::Stream::create(made); });
}

tuttiResult_t tuttiStreamFromCuda(tuttiStream_t* stream, void* cudaStream) {
  return make_stream(stream, [cudaStream](std::shared_ptr<tutti::Stream>* made) {
    return tutti::Stream::create_from(cudaStream, made);
  });
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::check_handle(stream));
    return stream->stream->query();
  });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::check_handle(stream));
    return stream->stream->synchronize();
  });
}

tuttiResult_t tuttiStreamSetTimeout(tuttiStream_t stream, double seconds) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::check_handle(stream));
    if (!(seconds >= 0)) return tutti::fail(Code::kInvalidArgument, "a timeout of {} s is not 0 or more", seconds);
    stream->stream->set_timeout(seconds);
    return {};
  });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::check_handle(stream));
    if (stream->stream.use_count() > 1)
      return tutti::fail(Code::kInvalidUsage, "calls of a group that has not ended are for this stream");
    TUTTI_TRY(stream->stream->close());
    stream->magic = 0;
    delete stream;
    return {};
  });
}

tuttiResult_t tuttiStreamAddCallback(tuttiStream_t stream, void (*fn)(tuttiResult_t, void*), void* user) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::check_handle(stream));
    if (fn == nullptr) return tutti::fail(Code::kInvalidArgument, "fn is NULL");
    stream->stream->enqueue([fn, user](const Status& status) { fn(static_cast<tuttiResult_t>(status.code()), user); });
    return {};
  });
}

}  // extern "C"
