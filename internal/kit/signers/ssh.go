// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// namespace is Git's signature namespace. Signatures made for mail or files are refused.
const namespace = "git"

// keyTypes are the accepted key types. Certificates are not among them: their authorities have
// rules of their own.
var keyTypes = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

func parseAllowed(text string) ([]allowed, error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, &KeyError{ListSSH, "holds a private key; give public keys only"}
	}
	var lines []allowed
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		a, err := parseLine(line)
		if err != nil {
			return nil, &KeyError{ListSSH, fmt.Sprintf("has line %d, which %v", number, err)}
		}
		lines = append(lines, a)
	}
	if len(lines) == 0 && strings.TrimSpace(text) != "" {
		return nil, &KeyError{ListSSH, "holds no key"}
	}
	return lines, nil
}

// parseLine parses "principals [options] type key [comment]", or a bare public key.
func parseLine(line string) (allowed, error) {
	if first, _, _ := strings.Cut(line, " "); !slices.Contains(keyTypes, first) {
		var err error
		if line, err = withoutPrincipals(line); err != nil {
			return allowed{}, err
		}
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return allowed{}, errors.New("is neither an SSH public key nor principals followed by one")
	}
	if err := checkKey(key); err != nil {
		return allowed{}, err
	}
	a := allowed{key: key, description: ssh.FingerprintSHA256(key)}
	for _, option := range options {
		if err := a.set(option); err != nil {
			return allowed{}, err
		}
	}
	if !a.before.IsZero() && !a.after.Before(a.before) {
		return allowed{}, errors.New("is never valid")
	}
	return a, nil
}

// withoutPrincipals removes the first word, which may be quoted. Like Git, which accepts a line of
// any principal, it ignores the principals.
func withoutPrincipals(line string) (string, error) {
	var rest string
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		_, rest, _ = strings.Cut(quoted, `"`)
	} else if i := strings.IndexAny(line, " \t"); i > 0 {
		rest = line[i:]
	}
	if rest = strings.TrimSpace(rest); rest == "" {
		return "", errors.New("is neither an SSH public key nor principals followed by one")
	}
	return rest, nil
}

func checkKey(key ssh.PublicKey) error {
	if !slices.Contains(keyTypes, key.Type()) {
		return fmt.Errorf("has a key of the type %s, which is not supported", key.Type())
	}
	crypto, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return nil
	}
	if k, ok := crypto.CryptoPublicKey().(*rsa.PublicKey); ok && k.N.BitLen() < minRSABits {
		return fmt.Errorf("has an RSA key of fewer than %d bits", minRSABits)
	}
	return nil
}

// set applies an option. An unknown option is an error, because it may restrict the key.
func (a *allowed) set(option string) (err error) {
	name, value, _ := strings.Cut(option, "=")
	value = strings.Trim(value, `"`)
	switch strings.ToLower(name) {
	case "namespaces":
		if value == "" {
			return errors.New("has an empty list of namespaces")
		}
		a.namespaces = value
	case "valid-after":
		a.after, err = parseTime(value)
	case "valid-before":
		a.before, err = parseTime(value)
	case "cert-authority":
		return errors.New("names a certificate authority, which is not supported; list the keys themselves")
	default:
		return fmt.Errorf("has the unknown option %q", name)
	}
	return err
}

// parseTime parses the format of ssh-keygen. Times without a zone are UTC, so that all replicas
// agree on them.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if at, err := time.Parse(layout, strings.TrimSuffix(text, "Z")); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("has the time %q; it must be YYYYMMDD or YYYYMMDDHHMM[SS], UTC", text)
}

// validAt returns nil if the line is valid for Git at the given time.
func (a *allowed) validAt(at time.Time) error {
	switch {
	case a.namespaces != "" && !matchList(a.namespaces, namespace):
		return fmt.Errorf("may sign for %s only, not for %s", a.namespaces, namespace)
	case !a.after.IsZero() && at.Before(a.after):
		return fmt.Errorf("was not valid before %s", a.after.Format(time.RFC3339))
	case !a.before.IsZero() && at.After(a.before):
		return fmt.Errorf("was valid until %s", a.before.Format(time.RFC3339))
	}
	return nil
}

func (s *Set) verifySSH(payload, armored []byte, at time.Time) error {
	sig, err := sshsig.Unarmor(armored)
	if err != nil {
		return &RejectedError{"has an SSH signature that cannot be read"}
	}
	if sig.Namespace != namespace {
		return &RejectedError{fmt.Sprintf("has an SSH signature that was made for %q, not for %q", sig.Namespace, namespace)}
	}
	rejected := &RejectedError{
		fmt.Sprintf("is signed by the SSH key %s, which may not sign here", ssh.FingerprintSHA256(sig.PublicKey)),
	}
	for _, line := range s.ssh {
		if !bytes.Equal(line.key.Marshal(), sig.PublicKey.Marshal()) {
			continue
		}
		if err := sshsig.Verify(bytes.NewReader(payload), sig, line.key, sig.HashAlgorithm, namespace); err != nil {
			return &RejectedError{fmt.Sprintf("has an SSH signature by %s that does not fit its content", line.description)}
		}
		err := line.validAt(at)
		if err == nil {
			return nil
		}
		rejected = &RejectedError{fmt.Sprintf("is signed by the SSH key %s, which %v", line.description, err)}
	}
	return rejected
}
