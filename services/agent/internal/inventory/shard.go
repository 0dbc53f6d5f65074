// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// ErrMalformed is matched by errors about a stored record that cannot be read.
var ErrMalformed = errors.New("malformed inventory")

// ShardObjects is the average number of objects in a shard, at most. With some 80 bytes an object,
// a shard stays far below the limit of a ConfigMap, even if a hash spreads objects unevenly.
const ShardObjects = 512

// shards distributes the objects by a hash of their keys. The number of shards is a power of two,
// so it changes only when the number of objects doubles or halves.
func (s Set) shards() [][]byte {
	count := 1
	for s.Len() > count*ShardObjects {
		count *= 2
	}
	writers := make([]shardWriter, count)
	for _, o := range s.Objects() {
		writers[o.shard(count)].add(o)
	}
	shards := make([][]byte, count)
	for i := range writers {
		shards[i] = []byte(writers[i].text.String())
	}
	return shards
}

// shard returns the number of the key's shard among count, a power of two.
func (k Key) shard(count int) int {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Group, k.Kind, k.Namespace, k.Name}, "/")))
	return int(binary.BigEndian.Uint32(sum[:]) & uint32(count-1))
}

// shardWriter writes a shard as text with two sorts of lines. A line of a single word,
// group/version/kind/namespace, describes the following lines. Each of those is an object: its
// name, its UID, its wave, and flags. Readers ignore further words.
type shardWriter struct {
	text  strings.Builder
	about string
}

func (w *shardWriter) add(o Object) {
	// None of the four can contain a slash or a space.
	if about := strings.Join([]string{o.Group, o.Version, o.Kind, o.Namespace}, "/"); about != w.about {
		w.text.WriteString(about + "\n")
		w.about = about
	}
	fmt.Fprintf(&w.text, "%s %s %d %s\n", url.PathEscape(o.Name), packUID(o.UID), o.Wave, o.flags())
}

// noFlags stands for an empty set of flags, and for an empty UID.
const noFlags = "-"

// The flags.
const (
	flagKeep    = "k"
	flagPermit  = "p"
	flagAgreed  = "a"
	flagCounted = "c"
)

func (o Object) flags() string {
	var flags string
	switch o.Wish {
	case Keep:
		flags += flagKeep
	case Permit:
		flags += flagPermit
	case NoWish:
	}
	if o.Agreed {
		flags += flagAgreed
	}
	if o.Counted {
		flags += flagCounted
	}
	return cmp.Or(flags, noFlags)
}

func (o *Object) setFlags(flags string) {
	switch {
	case strings.Contains(flags, flagKeep):
		o.Wish = Keep
	case strings.Contains(flags, flagPermit):
		o.Wish = Permit
	}
	o.Agreed, o.Counted = strings.Contains(flags, flagAgreed), strings.Contains(flags, flagCounted)
}

// readShard adds the objects of a shard.
func (s *Set) readShard(shard string) error {
	var about Ref
	for line := range strings.Lines(shard) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(line)
		var err error
		switch {
		case len(words) == 1:
			about, err = readAbout(words[0])
		case about.Kind == "":
			err = fmt.Errorf("%w: line %q, want it to follow one that names a kind", ErrMalformed, line)
		default:
			err = s.readObject(about, words)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readAbout(word string) (Ref, error) {
	const parts = 4
	about := strings.Split(word, "/")
	if len(about) != parts || about[2] == "" {
		return Ref{}, fmt.Errorf("%w: %q, want group/version/kind/namespace", ErrMalformed, word)
	}
	return Ref{Key: Key{Group: about[0], Kind: about[2], Namespace: about[3]}, Version: about[1]}, nil
}

func (s *Set) readObject(about Ref, words []string) error {
	const least = 4
	if len(words) < least {
		return fmt.Errorf("%w: object %q, want name, uid, wave and flags", ErrMalformed, strings.Join(words, " "))
	}
	o := Object{Ref: about}
	var err error
	if o.Name, err = url.PathUnescape(words[0]); err != nil {
		return fmt.Errorf("%w: name: %w", ErrMalformed, err)
	}
	if o.UID, err = unpackUID(words[1]); err != nil {
		return err
	}
	if o.Wave, err = strconv.Atoi(words[2]); err != nil {
		return fmt.Errorf("%w: wave: %w", ErrMalformed, err)
	}
	o.setFlags(words[3])
	s.Put(o)
	return nil
}

// readLines adds the objects of a shard in the format of agents before 0.5, with
// "group/version/kind/namespace/name uid" in each line.
func (s *Set) readLines(shard string) error {
	for line := range strings.Lines(shard) {
		text, uid, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !found {
			return fmt.Errorf("%w: line %q, want an object and its uid", ErrMalformed, line)
		}
		ref, err := decodeRef(text)
		if err != nil {
			return err
		}
		s.Put(Object{Ref: ref, UID: uid})
	}
	return nil
}

func decodeRef(text string) (Ref, error) {
	const fields = 5
	parts := strings.Split(text, "/")
	if len(parts) != fields || parts[2] == "" || parts[4] == "" {
		return Ref{}, fmt.Errorf("%w: object %q, want group/version/kind/namespace/name", ErrMalformed, text)
	}
	return Ref{
		Key:     Key{Group: parts[0], Kind: parts[2], Namespace: parts[3], Name: parts[4]},
		Version: parts[1],
	}, nil
}

// The marks of a UID that is a UUID in the usual notation, and of any other: Kubernetes promises
// only that a UID is a text.
const (
	packedUID = "."
	rawUID    = "="
)

// packUID writes the 36 characters of a UUID as 22.
func packUID(uid string) string {
	if uid == "" {
		return noFlags
	}
	if id, ok := parseUUID(uid); ok {
		return packedUID + base64.RawURLEncoding.EncodeToString(id[:])
	}
	return rawUID + url.PathEscape(uid)
}

func unpackUID(word string) (string, error) {
	if word == noFlags {
		return "", nil
	}
	if raw, ok := strings.CutPrefix(word, rawUID); ok {
		uid, err := url.PathUnescape(raw)
		if err != nil {
			return "", fmt.Errorf("%w: uid: %w", ErrMalformed, err)
		}
		return uid, nil
	}
	bytes, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(word, packedUID))
	id, wrong := uuid.FromBytes(bytes)
	if err != nil || wrong != nil {
		return "", fmt.Errorf("%w: uid %q", ErrMalformed, word)
	}
	return id.String(), nil
}
