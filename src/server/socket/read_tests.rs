use super::*;

const LIMIT: usize = 1_000;

/// One client frame, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        n @ 0..=125 => bytes.push(0x80 | n as u8),
        n @ 126..=65_535 => {
            bytes.push(0x80 | 126);
            bytes.extend((n as u16).to_be_bytes());
        }
        n => {
            bytes.push(0x80 | 127);
            bytes.extend((n as u64).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 250];
    bytes.extend(mask);
    bytes.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
    bytes
}

/// Every message of `bytes`, fed in pieces of `step`.
fn read_in_steps(bytes: &[u8], step: usize) -> Result<Vec<Incoming>, Breach> {
    let mut reader = Reader::new(LIMIT);
    let mut messages = Vec::new();
    for piece in bytes.chunks(step) {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(message) = reader.read(&mut piece)? {
            messages.push(message);
        }
    }
    Ok(messages)
}

fn read(bytes: &[u8]) -> Result<Vec<Incoming>, Breach> {
    let whole = read_in_steps(bytes, usize::MAX);
    assert_eq!(whole, read_in_steps(bytes, 1), "the cut of the stream must not matter");
    assert_eq!(whole, read_in_steps(bytes, 3), "the cut of the stream must not matter");
    whole
}

#[test]
fn fragments_are_joined_and_control_frames_may_stand_between_them() {
    let bytes = [frame(0x01, b"{\"a\""), frame(0x89, b"hi"), frame(0x00, b":"), frame(0x80, b"1}")].concat();
    let expected = vec![Incoming::Ping(Bytes::from_static(b"hi")), Incoming::Text("{\"a\":1}".to_owned())];
    assert_eq!(read(&bytes), Ok(expected));
}

#[test]
fn a_text_of_each_length_form_is_read() {
    for length in [0, 1, 125, 126, 999, 1_000] {
        let text = "x".repeat(length);
        assert_eq!(read(&frame(0x81, text.as_bytes())), Ok(vec![Incoming::Text(text)]));
    }
}

#[test]
fn an_announced_length_over_the_limit_is_refused_at_the_header() {
    // Not one byte of the payload, nor the mask, has come.
    let announced = [&[0x81, 0x80 | 127][..], &(8_u64 << 30).to_be_bytes()].concat();
    assert_eq!(read(&announced), Err(Breach::TooLarge));
    assert_eq!(read(&[0x81, 0x80 | 126, 0x03, 0xe9]), Err(Breach::TooLarge));
}

#[test]
fn the_limit_counts_the_joined_message() {
    let start = frame(0x01, &[b'x'; 600]);
    let announced = [&start[..], &[0x80, 0x80 | 126, 0x01, 0x91]].concat();
    assert_eq!(read(&announced), Err(Breach::TooLarge));
}

#[test]
fn the_length_of_one_message_does_not_count_against_the_next() {
    let two = [frame(0x81, &[b'x'; 1_000]), frame(0x81, &[b'y'; 1_000])].concat();
    assert_eq!(read(&two).map(|messages| messages.len()), Ok(2));
}

#[test]
fn what_rfc_6455_forbids_is_a_breach() {
    let unmasked = [0x81, 0x01, b'x'];
    let long_form = [0x81, 0x80 | 126, 0, 5];
    let longer_form = [0x81, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let top_bit = [0x81, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 0];
    let cases: [(&str, Vec<u8>); 13] = [
        ("reserved bit", frame(0xc1, b"x")),
        ("unmasked", unmasked.to_vec()),
        ("reserved data opcode", frame(0x83, b"x")),
        ("reserved control opcode", frame(0x8b, b"x")),
        ("fragmented ping", frame(0x09, b"x")),
        ("long ping", frame(0x89, &[0; 126])),
        ("continuation first", frame(0x80, b"x")),
        ("message in a message", [frame(0x01, b"x"), frame(0x81, b"y")].concat()),
        ("length in a longer form", long_form.to_vec()),
        ("length in the longest form", longer_form.to_vec()),
        ("length with its top bit", top_bit.to_vec()),
        ("one byte of a close code", frame(0x88, &[3])),
        ("a close code that may not be sent", frame(0x88, &1005_u16.to_be_bytes())),
    ];
    for (name, bytes) in cases {
        assert!(matches!(read(&bytes), Err(Breach::Protocol(_))), "{name}");
    }
}

#[test]
fn each_breach_has_its_close_code() {
    assert_eq!(read(&frame(0x82, b"x")).expect_err("binary").close_code(), CloseCode::UNSUPPORTED);
    assert_eq!(read(&frame(0x81, b"\xff")).expect_err("text").close_code(), CloseCode::INVALID_TEXT);
    assert_eq!(read(&frame(0x88, b"\x03\xe8\xff")).expect_err("reason").close_code(), CloseCode::INVALID_TEXT);
    assert_eq!(read(&frame(0x83, b"x")).expect_err("opcode").close_code(), CloseCode::PROTOCOL);
    assert_eq!(Breach::TooLarge.close_code(), CloseCode::TOO_LARGE);
}

#[test]
fn a_character_may_be_split_between_fragments() {
    let bytes = [frame(0x01, b"\xc3"), frame(0x80, b"\xa9")].concat();
    assert_eq!(read(&bytes), Ok(vec![Incoming::Text("é".to_owned())]));
}

#[test]
fn a_close_tells_its_code() {
    assert_eq!(read(&frame(0x88, b"")), Ok(vec![Incoming::Close(None)]));
    assert_eq!(read(&frame(0x88, b"\x03\xe8bye")), Ok(vec![Incoming::Close(Some(1000))]));
}

#[test]
fn nothing_is_read_after_a_breach() {
    let mut reader = Reader::new(LIMIT);
    let mut bytes = Bytes::from([frame(0x82, b"x"), frame(0x81, b"late")].concat());
    assert_eq!(reader.read(&mut bytes), Err(Breach::Binary));
    assert_eq!(reader.read(&mut bytes), Ok(None));
    assert!(bytes.is_empty());
}
