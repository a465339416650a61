//! The bytes under the data key `release`: standard padded base64 text of compressed JSON.
//!
//! Owns compression and its limits. Invariant: whatever bytes come in, reading them takes bounded memory: the
//! window of the decompressor, the JSON text, and the number of values in it all have a limit.

use std::io::{self, Read};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{read::GzDecoder, write::GzEncoder};

use crate::storage::unreadable::Fault;

/// Most bytes of JSON that a record may unpack to.
pub const MAX_JSON_BYTES: usize = 32 * 1024 * 1024;

/// Most JSON values in a record. A parsed value takes many times the memory of its text: `0,` is two bytes on disk
/// and thirty-two in memory.
pub const MAX_JSON_NODES: usize = 250_000;

/// zstd frames may ask for a window of up to this power of two; level 3, which everybody writes, asks for 21.
const MAX_WINDOW_LOG: u32 = 25;

const ZSTD_LEVEL: i32 = 3;

/// A buffer for less than this may grow as it is filled.
const GROWS: usize = 1 << 20;

/// How the JSON is compressed; the label `sherpack.io/compression` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    Zstd,
    Gzip,
    None,
}

impl Compression {
    /// Value of the label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::None => "none",
        }
    }

    /// Reads the label. A missing or unknown one means zstd, as the published reader has it.
    pub fn of_label(label: Option<&str>) -> Self {
        match label {
            Some("gzip") => Self::Gzip,
            Some("none") => Self::None,
            _ => Self::Zstd,
        }
    }
}

pub(super) fn pack(json: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
    let compressed = match compression {
        Compression::Zstd => zstd::bulk::compress(json, ZSTD_LEVEL)?,
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
            io::Write::write_all(&mut encoder, json)?;
            encoder.finish()?
        }
        Compression::None => return Ok(STANDARD.encode(json).into_bytes()),
    };
    Ok(STANDARD.encode(compressed).into_bytes())
}

/// The text, at most `max` bytes of it.
pub(in crate::storage) fn unpack(
    text: &[u8],
    compression: Compression,
    max: usize,
) -> Result<Vec<u8>, (Fault, String)> {
    let bytes =
        STANDARD.decode(text).map_err(|e| (Fault::Damaged, format!("its data is not base64: {e}")))?;
    let damaged =
        |e| (Fault::Damaged, format!("its {} data is damaged or cut off: {e}", compression.label()));
    // One byte more than allowed, to tell "exactly full" from "more".
    let limit = max as u64 + 1;
    let json = match compression {
        Compression::None => bytes,
        Compression::Zstd | Compression::Gzip => {
            let read = || Ok::<_, io::Error>(unpacked(&bytes, compression)?.take(limit));
            let mut json = Vec::new();
            if max > GROWS {
                // A buffer that grows to this takes twice as much for a moment: its length is found out first.
                let length =
                    read().and_then(|mut read| io::copy(&mut read, &mut io::sink())).map_err(damaged)?;
                json.reserve_exact(usize::try_from(length).unwrap_or(max));
            }
            read().and_then(|mut read| read.read_to_end(&mut json)).map_err(damaged)?;
            json
        }
    };
    if json.len() > max {
        return Err((Fault::TooLarge, format!("it unpacks to more than {MAX_JSON_BYTES} bytes")));
    }
    Ok(json)
}

fn unpacked(bytes: &[u8], compression: Compression) -> io::Result<Box<dyn Read + '_>> {
    Ok(match compression {
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
            decoder.window_log_max(MAX_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Compression::Gzip => Box::new(GzDecoder::new(bytes)),
        Compression::None => Box::new(bytes),
    })
}

/// An upper bound of the number of values in a JSON text: each but the first follows `[`, `{`, `,` or `:`.
#[must_use]
pub fn nodes(json: &[u8]) -> usize {
    let mut count = 1;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            // Punctuation inside a string is text.
            b'"' => {
                while let Some(inside) = bytes.next() {
                    match inside {
                        b'\\' => {
                            bytes.next();
                        }
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'[' | b'{' | b',' => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Compression; 3] = [Compression::Zstd, Compression::Gzip, Compression::None];

    #[test]
    fn every_compression_is_read_back() {
        for compression in ALL {
            let packed = pack(br#"{"a":1}"#, compression).unwrap();
            assert!(packed.is_ascii());
            assert_eq!(unpack(&packed, compression, MAX_JSON_BYTES).unwrap(), br#"{"a":1}"#);
            assert_eq!(Compression::of_label(Some(compression.label())), compression);
        }
    }

    #[test]
    fn a_missing_or_unknown_label_means_zstd() {
        assert_eq!(Compression::of_label(None), Compression::Zstd);
        assert_eq!(Compression::of_label(Some("lz4")), Compression::Zstd);
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = vec![b' '; MAX_JSON_BYTES + 1];
        for compression in [Compression::Zstd, Compression::Gzip] {
            let packed = pack(&bomb, compression).unwrap();
            assert!(packed.len() < 100_000);
            assert_eq!(
                unpack(&packed, compression, MAX_JSON_BYTES).unwrap_err().0,
                Fault::TooLarge,
                "{compression:?}"
            );
        }
        let full = pack(&bomb[1..], Compression::Zstd).unwrap();
        assert_eq!(unpack(&full, Compression::Zstd, MAX_JSON_BYTES).unwrap().len(), MAX_JSON_BYTES);
    }

    #[test]
    fn a_frame_that_asks_for_a_huge_window_is_refused() {
        // Frame header: magic, descriptor without size, window byte for 2^27.
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, (27 - 10) << 3, 0x01, 0x00, 0x00];
        let text = STANDARD.encode(frame).into_bytes();
        assert_eq!(unpack(&text, Compression::Zstd, MAX_JSON_BYTES).unwrap_err().0, Fault::Damaged);
    }

    #[test]
    fn many_tiny_values_are_counted_and_punctuation_in_a_text_is_not_counted() {
        let many = format!("[{}0]", "0,".repeat(MAX_JSON_NODES));
        assert!(nodes(many.as_bytes()) > MAX_JSON_NODES);

        let text = format!(r#"{{"manifest":"\"{}"}}"#, ",[{".repeat(MAX_JSON_NODES));
        assert!(nodes(text.as_bytes()) <= MAX_JSON_NODES);
    }

    #[test]
    fn a_blob_cut_anywhere_is_refused() {
        let json = format!(r#"{{"manifest":"{}"}}"#, (0..500).map(|n| n.to_string()).collect::<String>());
        for compression in [Compression::Zstd, Compression::Gzip] {
            let packed = pack(json.as_bytes(), compression).unwrap();
            for length in (0..packed.len()).step_by(4) {
                assert_eq!(
                    unpack(&packed[..length], compression, MAX_JSON_BYTES).unwrap_err().0,
                    Fault::Damaged,
                    "{compression:?} {length}"
                );
            }
        }
    }

    fn count(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
            serde_json::Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
            _ => 1,
        }
    }

    proptest! {
        #[test]
        fn the_bound_is_never_below_the_number_of_values(value in crate::storage::codec::tests::any_json()) {
            let text = serde_json::to_vec(&value).unwrap();
            prop_assert!(nodes(&text) >= count(&value));
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = STANDARD.encode(&bytes).into_bytes();
            for compression in ALL {
                let _ = unpack(&bytes, compression, MAX_JSON_BYTES);
                let _ = unpack(&text, compression, MAX_JSON_BYTES);
            }
        }
    }
}
