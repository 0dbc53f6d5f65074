// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/signers"
)

// Headers that hold signatures. Which of the two counts depends on the repository's hash; a
// repository of one hash may carry the other for its translation, so neither is signed.
const (
	headerSHA1   = "gpgsig"
	headerSHA256 = "gpgsig-sha256"
)

func malformed(why string) error { return &signers.RejectedError{Why: "is malformed: " + why} }

// header is one header of an object, without its name; lines that continue it have lost their
// leading blank.
type header struct {
	name  string
	value []byte
	raw   []byte // as it is in the object, its newline included
}

// splitHeaders returns the headers of a commit or tag, and what follows them from the empty line
// on.
func splitHeaders(raw []byte) (headers []header, body []byte, err error) {
	for len(raw) > 0 && raw[0] != '\n' {
		end := endOfHeader(raw)
		if end < 0 {
			return nil, nil, malformed("a header does not end")
		}
		name, value, found := bytes.Cut(raw[:end-1], []byte(" "))
		if !found || len(name) == 0 || bytes.IndexByte(raw[:end], 0) >= 0 {
			return nil, nil, malformed("a header has no name or no value")
		}
		headers = append(headers, header{
			name: string(name), value: bytes.ReplaceAll(value, []byte("\n "), []byte("\n")), raw: raw[:end],
		})
		raw = raw[end:]
	}
	return headers, raw, nil
}

// endOfHeader returns where the header at the beginning of raw ends: after the first newline that
// no blank follows.
func endOfHeader(raw []byte) int {
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '\n')
		if next < 0 {
			return -1
		}
		at += next + 1
		if at == len(raw) || raw[at] != ' ' {
			return at
		}
	}
}

// splitCommit takes the signature out of a commit. All the rest was signed.
func splitCommit(raw []byte) (signers.Signed, error) {
	headers, body, err := splitHeaders(raw)
	if err != nil {
		return signers.Signed{}, err
	}
	if len(headers) == 0 || headers[0].name != "tree" {
		return signers.Signed{}, malformed("it does not begin with a tree")
	}
	signature := headerSHA1
	if len(headers[0].value) > 40 { // the id of a tree in hexadecimal digits
		signature = headerSHA256
	}
	var signed signers.Signed
	if signed.Signature, err = single(headers, signature); err != nil {
		return signers.Signed{}, err
	}
	signed.Payload = append(payload(headers), body...)
	signed.At, err = timeIn(headers, "committer")
	return signed, err
}

// single returns the value of a header that must not be there twice; nil where it is not there.
func single(headers []header, name string) ([]byte, error) {
	var value []byte
	for _, h := range headers {
		if h.name != name {
			continue
		}
		if value != nil {
			return nil, malformed("it has two headers named " + name)
		}
		value = h.value
	}
	return value, nil
}

// payload joins all headers except signatures.
func payload(headers []header) []byte {
	var joined []byte
	for _, h := range headers {
		if h.name != headerSHA1 && h.name != headerSHA256 {
			joined = append(joined, h.raw...)
		}
	}
	return joined
}

// timeIn reads the time at the end of "Name <address> seconds zone". Without one it is the
// beginning of time, at which no key is valid that has a beginning.
func timeIn(headers []header, name string) (time.Time, error) {
	value, err := single(headers, name)
	if err != nil {
		return time.Time{}, err
	}
	fields := strings.Fields(string(value[bytes.LastIndexByte(value, '>')+1:]))
	if len(fields) == 0 {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, malformed("its " + name + " has no time")
	}
	return time.Unix(seconds, 0), nil
}

// splitTag takes the signature off the end of a tag, and returns the tag's own name.
func splitTag(raw []byte) (signers.Signed, string, error) {
	headers, body, err := splitHeaders(raw)
	if err != nil {
		return signers.Signed{}, "", err
	}
	if len(headers) < 3 || headers[0].name != "object" || headers[1].name != "type" || headers[2].name != "tag" {
		return signers.Signed{}, "", malformed("it does not begin with object, type and tag")
	}
	at := beginOfSignature(body)
	signed := signers.Signed{Payload: append(payload(headers), body[:at]...), Signature: body[at:]}
	signed.At, err = timeIn(headers, "tagger")
	return signed, string(headers[2].value), err
}

// beginOfSignature returns where the last line of a tag's message is that begins a signature, or
// the message's end.
func beginOfSignature(body []byte) int {
	begin := len(body)
	for at := 0; at < len(body); {
		if bytes.HasPrefix(body[at:], []byte("-----BEGIN ")) {
			begin = at
		}
		next := bytes.IndexByte(body[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return begin
}

// Tree returns the id of the tree that a commit holds: the one that its signature is about.
func Tree(commit []byte) (string, error) {
	headers, _, err := splitHeaders(commit)
	if err != nil || len(headers) == 0 || headers[0].name != "tree" {
		return "", malformed("it does not begin with a tree")
	}
	return string(headers[0].value), nil
}

// Target returns what a tag points to, and whether that is a tag too.
func Target(tag []byte) (id string, isTag bool, err error) {
	headers, _, err := splitHeaders(tag)
	if err != nil || len(headers) < 2 || headers[0].name != "object" || headers[1].name != "type" {
		return "", false, malformed("it does not begin with object and type")
	}
	return string(headers[0].value), string(headers[1].value) == "tag", nil
}
