// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localkind makes clusters of containers with the program kind, and deletes them. Their
// pods really run.
package localkind

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// markFile is in a cluster's folder while the cluster may exist, and has its name.
const markFile = "made"

// deleteTimeout bounds the end of a cluster.
const deleteTimeout = 2 * time.Minute

// ErrNotFound means that there is no program kind.
var ErrNotFound = errors.New("there is no kind on the PATH")

// NotOursError means that a cluster has the name, and no earlier Create in the folder made it.
type NotOursError struct{ Name string }

// Error implements error.
func (e *NotOursError) Error() string {
	return fmt.Sprintf("a kind cluster %s exists that this folder did not make", e.Name)
}

// Params describes a cluster.
type Params struct {
	LookPath func(file string) (string, error)
	Dir      string // keeps the kubeconfig, and a mark while the cluster may exist; one folder for each cluster
	Name     string // of the cluster among the clusters of Dir's owner
	Progress func(line string)
}

// Cluster is a cluster that runs.
type Cluster struct {
	kind       string
	name       string
	mark       string
	kubeconfig string
}

// Find returns the path of kind, or ErrNotFound.
func Find(lookPath func(string) (string, error)) (string, error) {
	path, err := lookPath("kind")
	if err != nil {
		return "", ErrNotFound
	}
	return path, nil
}

// Create makes a cluster, and replaces the one that an earlier process left when it was killed. It
// never touches a cluster that it has not made. After an error nothing is left running.
func Create(ctx context.Context, p Params) (*Cluster, error) {
	kind, err := Find(p.LookPath)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the cluster: %w", err)
	}
	c := &Cluster{kind: kind, name: nameOf(dir, p.Name), mark: filepath.Join(dir, markFile), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := c.clear(ctx, p.Progress); err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.mark, []byte(c.name+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("mark the cluster: %w", err)
	}
	p.Progress("kind makes the cluster " + c.name)
	if _, err := c.run(ctx, "create", "cluster", "--name", c.name, "--kubeconfig", c.kubeconfig, "--wait", "5m"); err != nil {
		return nil, errors.Join(err, c.Delete(ctx))
	}
	return c, nil
}

// nameOf returns a name that no other folder's cluster has.
func nameOf(dir, name string) string {
	sum := sha256.Sum256([]byte(dir))
	return "leat-" + name + "-" + hex.EncodeToString(sum[:4])
}

// clear deletes the cluster of a process that was killed.
func (c *Cluster) clear(ctx context.Context, progress func(string)) error {
	listed, err := c.run(ctx, "get", "clusters")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(listed), c.name) {
		return nil
	}
	if _, err := os.Stat(c.mark); errors.Is(err, fs.ErrNotExist) {
		return &NotOursError{Name: c.name}
	}
	progress("kind deletes the cluster " + c.name + ", which an earlier start left")
	return c.Delete(ctx)
}

// Left returns the name of the cluster that a process which was killed has left, by the folder of
// its Params.
func Left(dir string) (name string, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, markFile))
	return strings.TrimSpace(string(text)), err == nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Delete deletes the cluster, even if ctx has ended.
func (c *Cluster) Delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if _, err := c.run(ctx, "delete", "cluster", "--name", c.name, "--kubeconfig", c.kubeconfig); err != nil {
		return fmt.Errorf("%w: delete it with kind delete cluster --name %s", err, c.name)
	}
	return os.Remove(c.mark)
}

// run returns what kind prints to the standard output. The error has the end of the rest.
func (c *Cluster) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.kind, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // kind removes its containers
	cmd.WaitDelay = 20 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("kind %s %s: %w: %s", args[0], args[1], err, strings.Join(lines[max(0, len(lines)-5):], "; "))
	}
	return stdout.String(), nil
}
