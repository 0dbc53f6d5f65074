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

// containers are clusters that the program kind runs in containers.
type containers struct{ *base }

// find checks that there is a kind to run.
func (c containers) find() error {
	path, err := localkind.Find(c.LookPath)
	if err != nil {
		return kindFailure(err)
	}
	origin := report.Origin{Way: "kind"}
	c.report(report.Event{
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

// start makes a cluster of containers, which the group deletes, and returns the path of its
// administrator's kubeconfig.
func (c containers) start(ctx context.Context, name string) (string, error) {
	part := "cluster " + name
	cluster, err := localkind.Create(ctx, localkind.Params{
		LookPath: c.LookPath, Dir: c.kindDir(name), Name: name, Progress: func(line string) { c.tell(part, line) },
	})
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", kindFailure(err)
	}
	c.group.Go(ctx, part, "", func(ctx context.Context) error {
		<-ctx.Done()
		return cluster.Delete(ctx)
	})
	// The agent's folder describes a cluster that is gone.
	return cluster.Kubeconfig(), os.RemoveAll(c.agentDir(name))
}

// forget drops the agents of clusters that kind ran at an earlier start: this one has other
// clusters under their names.
func (c containers) forget() error {
	dirs, err := filepath.Glob(c.kindDir("*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if left, ok := localkind.Left(dir); ok {
			c.tell("cluster "+name, "an earlier start was killed and left a cluster: kind delete cluster --name "+left)
		}
		if err := errors.Join(os.RemoveAll(c.agentDir(name)), os.RemoveAll(dir)); err != nil {
			return failure.File(err, "Choose another folder with --data-dir.")
		}
	}
	return nil
}

func (c containers) kindDir(name string) string { return c.dir.Path("kind", name) }
