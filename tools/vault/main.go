// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// vault serves the core of HashiCorp Vault, with its transit and key-value engines and the
// authentication of AppRole, from a folder: what a stock server does, without its command line and
// its plugins.
//
// It initializes an empty folder, and prints one line of JSON once it serves: the root token and
// the key that unseals it, which it also keeps in that folder. It begins unsealed. It is for tests
// alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/transit"
	"github.com/hashicorp/vault/helper/testhelpers/corehelpers"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/file"
	"github.com/hashicorp/vault/vault"
)

// secrets open a Vault.
type secrets struct {
	Token  string `json:"token"`
	Unseal []byte `json:"unseal"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on, without TLS")
	folder := flag.String("folder", "", "where to keep what is stored")
	flag.Parse()
	if err := run(*listen, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, folder string) error {
	logger := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Warn})
	storage, err := file.NewFileBackend(map[string]string{"path": filepath.Join(folder, "storage")}, logger)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: storage, DisableMlock: true, Logger: logger,
		BuiltinRegistry:    corehelpers.NewMockBuiltinRegistry(),
		LogicalBackends:    map[string]logical.Factory{"transit": transit.Factory, "kv": kv.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory},
	})
	if err != nil {
		return err
	}
	keys, err := open(core, filepath.Join(folder, "secrets.json"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(keys); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.Serve(listener)
}

// open initializes a core without content, and unseals it.
func open(core *vault.Core, path string) (*secrets, error) {
	keys := &secrets{}
	content, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(content, keys); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		result, err := core.Initialize(context.Background(), &vault.InitParams{
			BarrierConfig: &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}, RecoveryConfig: nil,
		})
		if err != nil {
			return nil, err
		}
		keys = &secrets{Token: result.RootToken, Unseal: result.SecretShares[0]}
		if content, err = json.Marshal(keys); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	isOpen, err := core.Unseal(keys.Unseal)
	if err == nil && !isOpen {
		err = errors.New("one key does not unseal")
	}
	return keys, err
}
