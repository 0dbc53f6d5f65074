// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/kit/signers"
)

func sshKey(t *testing.T, public any) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key))
}

func edKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sshKey(t, public)
}

func pgpKey(t *testing.T, cfg *packet.Config, private bool) string {
	t.Helper()
	entity, err := openpgp.NewEntity("Mine", "", "mine@example.com", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	kind, write := openpgp.PublicKeyType, entity.Serialize
	if private {
		kind = openpgp.PrivateKeyType
	}
	w, err := armor.Encode(&text, kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	if private {
		err = entity.SerializePrivate(w, cfg)
	} else {
		err = write(w)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return text.String() + "\n"
}

func TestParse(t *testing.T) {
	t.Parallel()
	pgp, ed := pgpKey(t, nil, false), edKey(t)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := ed25519.GenerateKey(rand.Reader)
	block, err := ssh.MarshalPrivateKey(secret, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pgp, ssh string
		list     signers.List // of the error; empty: none
		says     string
	}{
		"one of each":          {pgp, ed, "", ""},
		"several":              {pgp + "some text\n" + pgp, "# comment\n\n" + ed + "a@example.com " + ed, "", ""},
		"CRLF":                 {strings.ReplaceAll(pgp, "\n", "\r\n"), strings.ReplaceAll(ed, "\n", "\r\n"), "", ""},
		"no PGP key":           {"hello", "", signers.ListPGP, "no armored"},
		"broken PGP key":       {pgp[:len(pgp)/2], "", signers.ListPGP, "block 1"},
		"second broken":        {pgp + pgp[:len(pgp)/2], "", signers.ListPGP, "block 2"},
		"private PGP key":      {pgpKey(t, nil, true), "", signers.ListPGP, "private"},
		"only comments":        {"", "# nothing", signers.ListSSH, "no key"},
		"no SSH key":           {"", ed + "hello", signers.ListSSH, "line 2"},
		"principal only":       {"", "a@example.com", signers.ListSSH, "line 1"},
		"private SSH key":      {"", string(pem.EncodeToMemory(block)), signers.ListSSH, "private"},
		"short RSA key":        {"", sshKey(t, &short.PublicKey), signers.ListSSH, "2048"},
		"authority":            {"", "* cert-authority " + ed, signers.ListSSH, "authority"},
		"unknown option":       {"", "* from=\"10.0.0.1\" " + ed, signers.ListSSH, "from"},
		"bad time":             {"", "* valid-after=\"soon\" " + ed, signers.ListSSH, "soon"},
		"never valid":          {"", "* valid-after=\"20240101\",valid-before=\"20230101\" " + ed, signers.ListSSH, "never valid"},
		"no namespace at all":  {"", "* namespaces=\"\" " + ed, signers.ListSSH, "namespaces"},
		"unterminated quote":   {"", "\"a b " + ed, signers.ListSSH, "line 1"},
		"DSA, long unsafe now": {"", "ssh-dss AAAAB3NzaC1kc3MAAAAA", signers.ListSSH, "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := signers.Parse(c.pgp, c.ssh)
			key, ok := errors.AsType[*signers.KeyError](err)
			switch {
			case c.list == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case c.list != "" && (!ok || key.List != c.list || !strings.Contains(key.Message, c.says)):
				t.Errorf("got %v, want one of %s that contains %q", err, c.list, c.says)
			}
		})
	}
	if _, err := signers.Parse(" ", "\n"); !errors.Is(err, signers.ErrNoKeys) {
		t.Errorf("got %v, want ErrNoKeys", err)
	}
}

func TestUsable(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := &packet.Config{KeyLifetimeSecs: 3600, Time: func() time.Time { return now.Add(-24 * time.Hour) }}
	ed := edKey(t)
	for name, c := range map[string]struct {
		pgp, ssh string
		list     signers.List
	}{
		"a key without end":        {pgpKey(t, nil, false), "", ""},
		"an expired key":           {pgpKey(t, past, false), "", signers.ListPGP},
		"an expired and a new one": {pgpKey(t, past, false) + pgpKey(t, nil, false), "", ""},
		"an expired and an SSH":    {pgpKey(t, past, false), ed, ""},
		"a line of the past":       {"", "* valid-before=\"20200101\" " + ed, signers.ListSSH},
		"a line for files":         {"", "* namespaces=\"file\" " + ed, signers.ListSSH},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := signers.Parse(c.pgp, c.ssh)
			if err != nil {
				t.Fatal(err)
			}
			err = set.Usable(time.Now())
			if key, ok := errors.AsType[*signers.KeyError](err); (c.list != "") != ok || (ok && key.List != c.list) {
				t.Errorf("got %v, want an error of the list %q", err, c.list)
			}
		})
	}
}
