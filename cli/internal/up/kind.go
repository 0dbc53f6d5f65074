// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/localkind"
	"github.com/leatdev/leat/cli/internal/up/report"
)

// findKind checks that there is a kind to run.
func (u *up) findKind() error {
	path, err := localkind.Find(u.LookPath)
	if err != nil {
		return kindFailure(err)
	}
	origin := report.Origin{Way: "kind"}
	u.report(report.Event{
		Kind: report.Progress, Part: "kubernetes", Message: "kind: " + path + " runs the clusters in containers", Kubernetes: &origin,
	})
	return nil
}

// kindFailure explains to a user why there is no cluster of containers.
func kindFailure(err error) error {
	if notOurs, ok := errors.AsType[*localkind.NotOursError](err); ok {
		return failure.New(notOurs.Error(), "Delete it with kind delete cluster --name "+notOurs.Name+" if nobody needs it.")
	}
	return failure.New(err.Error(), "--kind needs kind from https://kind.sigs.k8s.io and a container engine that runs, such as Docker; "+
		"without --kind, leat up simulates the nodes.")
}

// startKind makes a cluster of containers, which the group deletes, and returns the path of its
// administrator's kubeconfig.
func (u *up) startKind(ctx context.Context, name string) (string, error) {
	part := "cluster " + name
	cluster, err := localkind.Create(ctx, localkind.Params{
		LookPath: u.LookPath, Dir: u.kindDir(name), Name: name, Progress: func(line string) { u.tell(part, line) },
	})
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", kindFailure(err)
	}
	u.group.Go(ctx, part, "", func(ctx context.Context) error {
		<-ctx.Done()
		return cluster.Delete(ctx)
	})
	// The agent's folder describes a cluster that is gone.
	return cluster.Kubeconfig(), os.RemoveAll(u.agentDir(name))
}

// leaveKind forgets the agents of clusters that kind ran at an earlier start: this one has other
// clusters under their names.
func (u *up) leaveKind() error {
	dirs, err := filepath.Glob(u.kindDir("*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if left, ok := localkind.Left(dir); ok {
			u.tell("cluster "+name, "an earlier start was killed and left a cluster: kind delete cluster --name "+left)
		}
		if err := errors.Join(os.RemoveAll(u.agentDir(name)), os.RemoveAll(dir)); err != nil {
			return failure.File(err, "Choose another folder with --data-dir.")
		}
	}
	return nil
}

func (u *up) kindDir(name string) string { return u.dir.Path("kind", name) }

func (u *up) agentDir(name string) string { return u.dir.Path("agent", name) }
