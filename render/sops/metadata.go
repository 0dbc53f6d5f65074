// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"go.yaml.in/yaml/v3"
)

const (
	// maxRecipients bounds the age keys that one file is encrypted for.
	maxRecipients = 100
	// maxEnvelope bounds the encrypted data key of one recipient. SOPS writes one stanza, of which
	// the largest kind has less than 3 KiB.
	maxEnvelope = 8 << 10
	// maxPattern bounds a regular expression.
	maxPattern = 1 << 10
	// dataKeyBytes is the length of a data key.
	dataKeyBytes = 32
)

// metadata is the block that SOPS keeps in a file.
type metadata struct {
	Age []struct {
		Recipient string `yaml:"recipient"`
		Envelope  string `yaml:"enc"`
	} `yaml:"age"`
	LastModified      string `yaml:"lastmodified"`
	MAC               string `yaml:"mac"`
	UnencryptedSuffix string `yaml:"unencrypted_suffix"`
	EncryptedSuffix   string `yaml:"encrypted_suffix"`
	UnencryptedRegex  string `yaml:"unencrypted_regex"`
	EncryptedRegex    string `yaml:"encrypted_regex"`
	MACOnlyEncrypted  bool   `yaml:"mac_only_encrypted"`

	// The following is refused.
	KeyGroups               []any  `yaml:"key_groups"`
	UnencryptedCommentRegex string `yaml:"unencrypted_comment_regex"`
	EncryptedCommentRegex   string `yaml:"encrypted_comment_regex"`
}

// metadataOf returns the metadata of the first document that has some. SOPS writes the same into
// each document.
func metadataOf(documents []*yaml.Node) (m metadata, err error) {
	for _, document := range documents {
		for i := 0; i+1 < len(document.Content); i += 2 {
			if document.Content[i].Value != MetadataField {
				continue
			}
			if document.Content[i+1].Decode(&m) != nil {
				return m, errors.New("the field sops cannot be read")
			}
			return m, m.check()
		}
	}
	return m, errors.New("no document has a field sops")
}

func (m metadata) check() error {
	switch {
	case m.MAC == "":
		return errors.New("the field sops has no mac; encrypt the file again with sops")
	case len(m.KeyGroups) > 0:
		return errors.New("key groups of sops are not supported; encrypt the file for age keys alone")
	case m.UnencryptedCommentRegex != "" || m.EncryptedCommentRegex != "":
		return errors.New("comments that decide what sops encrypts are not supported; use encrypted_regex")
	case len(m.Age) > maxRecipients:
		return fmt.Errorf("is encrypted for %d age keys; at most %d are supported", len(m.Age), maxRecipients)
	}
	return nil
}

// KeyError means that none of the keys opens a file.
type KeyError struct {
	// Recipients are the public age keys that the file is encrypted for. Empty: it is encrypted with
	// other kinds of keys only.
	Recipients []string
}

// Error implements error.
func (e *KeyError) Error() string {
	if len(e.Recipients) == 0 {
		return "is not encrypted for an age key; add one with sops rotate --add-age"
	}
	return "no key opens it: it is encrypted for " + strings.Join(e.Recipients, ", ")
}

// publicKey is an age recipient as messages may show it.
var publicKey = regexp.MustCompile(`^age1[a-z0-9]+$`)

// maxShown bounds the recipients that an error names, and shownBytes each of them.
const maxShown, shownBytes = 10, 80

// recipients returns the public keys for a message.
func (m metadata) recipients() (all []string) {
	for _, one := range m.Age {
		switch {
		case len(all) == maxShown:
			return append(all, "…")
		case !publicKey.MatchString(one.Recipient):
			all = append(all, "a key that is not of age")
		case len(one.Recipient) > shownBytes:
			all = append(all, one.Recipient[:shownBytes]+"…")
		default:
			all = append(all, one.Recipient)
		}
	}
	return all
}

// dataKey opens the data key. It tries only identities whose recipient the file names: the cost does
// not depend on the number of keys.
func (m metadata) dataKey(keys Keys) ([]byte, error) {
	for _, one := range m.Age {
		identity := keys.identities[one.Recipient]
		if identity == nil || len(one.Envelope) > maxEnvelope {
			continue
		}
		opened, err := age.Decrypt(armor.NewReader(strings.NewReader(one.Envelope)), identity)
		if err != nil {
			continue
		}
		key, err := io.ReadAll(io.LimitReader(opened, dataKeyBytes+1))
		if err == nil && len(key) == dataKeyBytes {
			return key, nil
		}
	}
	return nil, &KeyError{Recipients: m.recipients()}
}

// rules select the encrypted values of a file.
type rules struct {
	metadata
	unencrypted, encrypted *regexp.Regexp // nil: none

	macOnlyEncrypted bool
}

func (m metadata) rules() (r rules, err error) {
	r = rules{metadata: m, macOnlyEncrypted: m.MACOnlyEncrypted}
	if r.unencrypted, err = compile("unencrypted_regex", m.UnencryptedRegex); err != nil {
		return r, err
	}
	r.encrypted, err = compile("encrypted_regex", m.EncryptedRegex)
	return r, err
}

func compile(name, pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("%s of the field sops has more than %d bytes", name, maxPattern)
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s of the field sops is not a regular expression", name)
	}
	return compiled, nil
}

// scope is which rules a key above a value meets.
type scope struct{ unencryptedSuffix, encryptedSuffix, unencryptedRegex, encryptedRegex bool }

func (rules) initial() scope { return scope{} }

// below returns the scope below a key.
func (r rules) below(s scope, key string) scope {
	s.unencryptedSuffix = s.unencryptedSuffix || r.UnencryptedSuffix != "" && strings.HasSuffix(key, r.UnencryptedSuffix)
	s.encryptedSuffix = s.encryptedSuffix || r.EncryptedSuffix != "" && strings.HasSuffix(key, r.EncryptedSuffix)
	s.unencryptedRegex = s.unencryptedRegex || r.unencrypted != nil && r.unencrypted.MatchString(key)
	s.encryptedRegex = s.encryptedRegex || r.encrypted != nil && r.encrypted.MatchString(key)
	return s
}

// encrypts reports whether a value in a scope is encrypted. A later rule replaces what an earlier
// one decided, in SOPS's order.
func (r rules) encrypts(s scope) bool {
	isEncrypted := !s.unencryptedSuffix
	if r.EncryptedSuffix != "" {
		isEncrypted = s.encryptedSuffix
	}
	if s.unencryptedRegex {
		isEncrypted = false
	}
	if r.encrypted != nil {
		isEncrypted = s.encryptedRegex
	}
	return isEncrypted
}

// Keys are age identities. The zero Keys open nothing. Keys are not changed and may be used
// concurrently.
type Keys struct {
	identities map[string]age.Identity // by recipient
}

// MaxKeys bounds the identities of a Keys, and MaxKeyFile the bytes of one key file.
const (
	MaxKeys    = 100
	MaxKeyFile = 64 << 10
)

// ParseKeys reads age key files: identities line by line, as age-keygen writes them. Errors do not
// repeat what the files hold.
func ParseKeys(files ...string) (Keys, error) {
	keys := Keys{identities: map[string]age.Identity{}}
	for _, file := range files {
		if len(file) > MaxKeyFile {
			return Keys{}, fmt.Errorf("the key file has more than %d KiB", MaxKeyFile>>10)
		}
		identities, err := age.ParseIdentities(strings.NewReader(file))
		if err != nil {
			return Keys{}, errors.New("the key file does not hold identities of age, such as AGE-SECRET-KEY-1…, one a line")
		}
		for _, identity := range identities {
			switch known := identity.(type) {
			case *age.X25519Identity:
				keys.identities[known.Recipient().String()] = known
			case *age.HybridIdentity:
				keys.identities[known.Recipient().String()] = known
			}
		}
		if len(keys.identities) > MaxKeys {
			return Keys{}, fmt.Errorf("the key files hold more than %d identities", MaxKeys)
		}
	}
	return keys, nil
}

// IsEmpty reports whether the Keys open nothing.
func (k Keys) IsEmpty() bool { return len(k.identities) == 0 }

// String implements fmt.Stringer, so that identities are in no log.
func (k Keys) String() string { return fmt.Sprintf("%d age keys", len(k.identities)) }

// GoString implements fmt.GoStringer.
func (k Keys) GoString() string { return k.String() }
