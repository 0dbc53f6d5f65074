// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// errLong means that a piece of JSON is longer than an entry may be.
var errLong = errors.New("a value is too long")

// rationed returns no more than some bytes between two calls of renew, so that the decoder that
// reads it holds no more of one value.
type rationed struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (r *rationed) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errLong
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// jsonParser reads an index of JSON, token by token.
type jsonParser struct {
	stop    func() error // why to stop, or nil
	source  *rationed
	decoder *json.Decoder
	collect *collector
}

func parseJSON(s Source, c *collector, stop func() error) error {
	source := &rationed{Reader: io.NewSectionReader(s, 0, s.Size)}
	mark := make([]byte, len(byteOrderMark))
	if n, _ := s.ReadAt(mark, 0); string(mark[:n]) == byteOrderMark {
		source.Reader = io.NewSectionReader(s, int64(n), s.Size-int64(n))
	}
	p := &jsonParser{stop: stop, source: source, decoder: json.NewDecoder(source), collect: c}
	err := p.parse()
	if _, isSyntax := errors.AsType[*json.SyntaxError](err); isSyntax || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &uncutError{why: "is not JSON, although it begins with a brace"} // YAML may begin like that
	}
	if errors.Is(err, errLong) {
		return &FormatError{Why: fmt.Sprintf("has a value of more than %d bytes", maxEntry)}
	}
	return err
}

func (p *jsonParser) parse() error {
	version, hasEntries := "", false
	err := p.object(func(key string) error {
		switch {
		case key == "entries" && hasEntries:
			return &FormatError{Why: "has its entries twice"}
		case key == "entries":
			hasEntries = true
			return p.entries()
		case key == "apiVersion":
			if err := p.decode(&version); isTypeError(err) {
				return &FormatError{Why: "has an apiVersion that is not a text"}
			} else if err != nil {
				return err
			}
			return nil
		}
		return p.discard()
	})
	if err != nil {
		return err
	}
	if _, err := p.token(); !errors.Is(err, io.EOF) {
		return &uncutError{why: "has something after its end"}
	}
	return checkAPIVersion(version)
}

func (p *jsonParser) entries() error {
	return p.object(func(name string) error {
		if err := p.stop(); err != nil {
			return err
		}
		isKept, err := p.collect.admit(name)
		if err != nil {
			return err
		}
		if !isKept {
			return p.discard()
		}
		v := p.collect.newVersions(name, "")
		if err := p.versions(v); err != nil {
			return err
		}
		return p.collect.add(v.chart)
	})
}

// versions reads the list of one chart.
func (p *jsonParser) versions(v *versions) error {
	first, err := p.token()
	if err != nil || first == nil { // null: no version
		return err
	}
	if first != json.Delim('[') {
		return errors.Join(v.skip("it is not a list of versions"), p.discardRest(first))
	}
	for p.decoder.More() {
		var e *entry
		err := p.decode(&e)
		if isTypeError(err) {
			err = v.skip("an entry has values of the wrong type")
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if err := v.add(e); err != nil {
			return err
		}
	}
	_, err = p.token()
	return err
}

// object reads an object, and calls member for the value of each key. Null is an object without
// any.
func (p *jsonParser) object(member func(key string) error) error {
	first, err := p.token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('{') {
		return &FormatError{Why: "does not have the form of an index"}
	}
	for p.decoder.More() {
		token, err := p.token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return &FormatError{Why: "does not have the form of an index"}
		}
		if err := member(key); err != nil {
			return err
		}
	}
	_, err = p.token()
	return err
}

// discard reads a value and forgets it.
func (p *jsonParser) discard() error {
	first, err := p.token()
	if err != nil {
		return err
	}
	return p.discardRest(first)
}

// discardRest reads what follows the first token of a value. It counts the depth rather than
// calling itself, because a stranger chooses it.
func (p *jsonParser) discardRest(first json.Token) error {
	depth := depthOf(first)
	for depth > 0 {
		if depth > maxDepth {
			return &FormatError{Why: "is nested too deeply"}
		}
		token, err := p.token()
		if err != nil {
			return err
		}
		depth += depthOf(token)
	}
	return nil
}

// depthOf returns by how much a token changes the depth.
func depthOf(token json.Token) int {
	switch token {
	case json.Delim('{'), json.Delim('['):
		return 1
	case json.Delim('}'), json.Delim(']'):
		return -1
	}
	return 0
}

func (p *jsonParser) token() (json.Token, error) {
	p.source.left = maxEntry
	return p.decoder.Token()
}

func (p *jsonParser) decode(into any) error {
	p.source.left = maxEntry
	return p.decoder.Decode(into)
}

// isTypeError reports whether a value was read and is not of the type that it has to have.
func isTypeError(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}
