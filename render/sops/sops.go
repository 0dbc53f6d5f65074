// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package sops opens manifests that SOPS has encrypted with age keys.
//
// A manifest is opened in two parts. OpenFile reads the file as it was written: it obtains the data
// key by an age identity, opens each value with the path of its keys as additional data, and
// compares the MAC over all values of the file. Fill then replaces, in the objects that a renderer
// made of the file, each encrypted text by its value, only at the path at which the file has it. So
// renderers never see a value, and may change the rest of an object, such as its namespace, which
// would change the MAC.
//
// SOPS's own library is not used: it links the clients of all clouds. This package reads YAML and
// JSON with keys of age. It does not read other kinds of keys, key groups, comments that select
// encrypted values, and files that are encrypted as a whole.
//
// No error of this package contains a value or a key.
package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MetadataField is the field of a manifest in which SOPS keeps what it needs to open it.
const MetadataField = "sops"

const (
	// maxBytes bounds a file. All of it is parsed before anything of it is proven.
	maxBytes = 4 << 20
	// maxDepth bounds the keys and items above a value. Each value costs the length of its path.
	maxDepth = 100
	// maxDocuments bounds the documents of a file.
	maxDocuments = 1000
	// ivBytes and tagBytes are the lengths that SOPS uses.
	ivBytes, tagBytes = 32, 16
)

// macOnlyEncrypted begins a MAC that covers only encrypted values.
var macOnlyEncrypted = []byte{
	0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0xb,
	0xb, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
}

// errMAC means that a file was changed after it was encrypted, or is incomplete.
var errMAC = errors.New("the MAC differs: the file was changed by something else than sops after it was encrypted; " +
	"restore it from its history, or edit it with sops")

// place is an encrypted text and where it is: the keys above it, as SOPS authenticates them.
type place struct{ path, text string }

// File is an opened file. It is not changed after OpenFile and may be used concurrently.
type File struct {
	mac    string
	values map[place]any
}

// OpenFile opens a file of YAML or JSON documents that SOPS has encrypted together. It returns a
// *KeyError if none of the keys opens it. Other errors name keys of the file.
func OpenFile(content []byte, keys Keys) (*File, error) {
	if len(content) > maxBytes {
		return nil, fmt.Errorf("has %d bytes; an encrypted file may have %d; split it", len(content), maxBytes)
	}
	documents, err := readDocuments(content)
	if err != nil {
		return nil, err
	}
	m, err := metadataOf(documents)
	if err != nil {
		return nil, err
	}
	rules, err := m.rules()
	if err != nil {
		return nil, err
	}
	dataKey, err := m.dataKey(keys)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(dataKey)
	if err != nil {
		return nil, errors.New("the data key has a wrong length")
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, ivBytes)
	if err != nil {
		return nil, errors.New("the data key cannot be used")
	}
	o := opener{gcm: gcm, rules: rules, sum: sha512.New(), values: map[place]any{}}
	if rules.macOnlyEncrypted {
		o.sum.Write(macOnlyEncrypted)
	}
	for _, document := range documents {
		if err := o.mapping(document, "", rules.initial(), 0); err != nil {
			return nil, err
		}
	}
	if err := o.compare(m); err != nil {
		return nil, err
	}
	return &File{mac: m.MAC, values: o.values}, nil
}

// readDocuments returns the mappings of a file, without empty documents.
func readDocuments(content []byte) (documents []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			if len(documents) > 0 && isEnd(err) {
				return documents, nil
			}
			return nil, errors.New("cannot be read as YAML")
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue
		}
		if node.Content[0].Kind != yaml.MappingNode {
			return nil, errors.New("holds a document that is not a mapping")
		}
		if len(documents) == maxDocuments {
			return nil, fmt.Errorf("holds more than %d documents", maxDocuments)
		}
		documents = append(documents, node.Content[0])
	}
}

// opener opens the values of one file, in the order of the file.
type opener struct {
	gcm    cipher.AEAD
	rules  rules
	sum    hash.Hash
	values map[place]any
}

// mapping opens the values below a mapping. path is the path of its keys, each with a colon behind.
func (o *opener) mapping(node *yaml.Node, path string, s scope, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: lies more than %d levels deep", pathText(path), maxDepth)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if path == "" && key.Value == MetadataField {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return fmt.Errorf("%s: has a key that is not text", pathText(path))
		}
		if err := o.value(value, path+key.Value+":", o.rules.below(s, key.Value), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (o *opener) value(node *yaml.Node, path string, s scope, depth int) error {
	switch node.Kind {
	case yaml.MappingNode:
		return o.mapping(node, path, s, depth)
	case yaml.SequenceNode:
		if depth > maxDepth {
			return fmt.Errorf("%s: lies more than %d levels deep", pathText(path), maxDepth)
		}
		for _, item := range node.Content { // SOPS does not authenticate positions, the MAC does
			if err := o.value(item, path, s, depth+1); err != nil {
				return err
			}
		}
		return nil
	case yaml.ScalarNode:
		return o.scalar(node, path, o.rules.encrypts(s))
	default:
		return fmt.Errorf("%s: holds an alias, which sops does not write", pathText(path))
	}
}

func (o *opener) scalar(node *yaml.Node, path string, isEncrypted bool) error {
	var value any
	if err := node.Decode(&value); err != nil {
		return fmt.Errorf("%s: cannot be read", pathText(path))
	}
	if value == nil {
		return nil
	}
	if isEncrypted {
		text, isText := value.(string)
		if !isText {
			return fmt.Errorf("%s: is not encrypted, although it should be; encrypt the file again with sops", pathText(path))
		}
		if text == "" {
			return nil // SOPS leaves empty texts as they are
		}
		opened, err := o.open(text, path)
		if err != nil {
			return fmt.Errorf("%s: %w", pathText(path), err)
		}
		o.values[place{path, text}] = opened
		value = opened
	}
	if isEncrypted || !o.rules.macOnlyEncrypted {
		text, err := macText(value)
		if err != nil {
			return fmt.Errorf("%s: %w", pathText(path), err)
		}
		o.sum.Write(text)
	}
	return nil
}

// open opens one encrypted text.
func (o *opener) open(text, path string) (any, error) {
	plain, kind, err := decrypt(o.gcm, text, path)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "str":
		return plain, nil
	case "int":
		return typed(strconv.ParseInt(plain, 10, 64))
	case "float":
		return typed(strconv.ParseFloat(plain, 64))
	case "bool":
		return typed(strconv.ParseBool(plain))
	case "time":
		at, err := time.Parse(time.RFC3339Nano, plain)
		if err != nil {
			return nil, errType
		}
		return at.Format(time.RFC3339Nano), nil
	default:
		return nil, errors.New("holds a value of a type that manifests do not have")
	}
}

var errType = errors.New("holds a value that is not of its type")

func typed[T any](value T, err error) (any, error) {
	if err != nil {
		return nil, errType // the error of strconv repeats the value
	}
	return value, nil
}

// decrypt opens ENC[AES256_GCM,data:…,iv:…,tag:…,type:…].
func decrypt(gcm cipher.AEAD, text, path string) (plain, kind string, err error) {
	rest, hasStart := strings.CutPrefix(text, prefix+"data:")
	rest, hasEnd := strings.CutSuffix(rest, "]")
	data, rest, hasIV := strings.Cut(rest, ",iv:")
	iv, rest, hasTag := strings.Cut(rest, ",tag:")
	tag, kind, hasType := strings.Cut(rest, ",type:")
	if !hasStart || !hasEnd || !hasIV || !hasTag || !hasType {
		return "", "", errors.New("is not encrypted, although it should be; encrypt the file again with sops")
	}
	var parts [3][]byte
	for i, part := range []string{data, iv, tag} {
		if parts[i], err = base64.StdEncoding.DecodeString(part); err != nil {
			return "", "", errors.New("holds an encrypted text that is damaged")
		}
	}
	if len(parts[1]) != ivBytes || len(parts[2]) != tagBytes {
		return "", "", errors.New("holds an encrypted text with a wrong length")
	}
	opened, err := gcm.Open(nil, parts[1], append(parts[0], parts[2]...), []byte(path))
	if err != nil {
		return "", "", errors.New("holds an encrypted text that was changed, or was moved from another place")
	}
	return string(opened), kind, nil
}

// prefix begins each encrypted text.
const prefix = "ENC[AES256_GCM,"

// macText returns what a value adds to the MAC.
func macText(value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return []byte(v), nil
	case int:
		return []byte(strconv.Itoa(v)), nil
	case int64:
		return []byte(strconv.FormatInt(v, 10)), nil
	case float64:
		return []byte(strconv.FormatFloat(v, 'f', -1, 64)), nil
	case bool:
		if v {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return v.MarshalText()
	default:
		return nil, errors.New("holds a value that sops cannot authenticate")
	}
}

// compare compares the MAC of the file with the one in its metadata.
func (o *opener) compare(m metadata) error {
	modified, err := time.Parse(time.RFC3339, m.LastModified)
	if err != nil {
		return errMAC
	}
	want, _, err := decrypt(o.gcm, m.MAC, modified.Format(time.RFC3339))
	if err != nil {
		return errMAC
	}
	got := strings.ToUpper(hex.EncodeToString(o.sum.Sum(nil)))
	if subtle.ConstantTimeCompare([]byte(want), []byte(got)) != 1 {
		return errMAC
	}
	return nil
}

// pathText writes a path for people.
func pathText(path string) string {
	path = strings.TrimSuffix(path, ":")
	if path == "" {
		return "the document"
	}
	const longest = 200
	if len(path) > longest {
		path = path[:longest] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(path, ":", "."), "�")
}
