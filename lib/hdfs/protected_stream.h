// Streams over a stream that hide or sign what goes through: what a SASL handshake on the data port agrees on. Internal
// to lib/hdfs. As thread-safe as ByteStream says.
#pragma once

#include <memory>

#include "lib/hdfs/byte_stream.h"
#include "lib/hdfs/sasl_crypto.h"
#include "lib/hdfs/security.h"

namespace paceline::hdfs {

// Frames of four bytes of length and wrapped bytes.
std::unique_ptr<ByteStream> MakeSaslStream(std::unique_ptr<ByteStream> inner,
                                           std::unique_ptr<SaslProtection> protection);

// The bytes themselves, each direction under its own counter-mode cipher.
std::unique_ptr<ByteStream> MakeAesStream(std::unique_ptr<ByteStream> inner, std::unique_ptr<StreamCipher> out,
                                          std::unique_ptr<StreamCipher> in);

}  // namespace paceline::hdfs
