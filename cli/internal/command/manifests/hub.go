// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeapi"
	"github.com/leatdev/leat/cli/internal/localrender"
	"github.com/leatdev/leat/cli/internal/session"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// downloadTimeout bounds the download of one bundle.
const downloadTimeout = 5 * time.Minute

// serviceName returns the name of a service of the hub that an argument names as service/NAME or
// service/PROJECT/NAME, each with @CLUSTER or without. A folder of that name makes the argument
// ambiguous; one below it, such as service/overlays/prod, is the folder.
func serviceName(arg string) (name string, isService bool, err error) {
	name, isService = strings.CutPrefix(arg, "service/")
	if !isService {
		name, isService = strings.CutPrefix(arg, "services/")
	}
	plain, cluster, _ := strings.Cut(name, "@")
	if !isService || plain == "" || strings.Count(plain, "/") > 1 || strings.Count(cluster, "/") > 1 {
		return "", false, nil
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		if strings.Contains(plain, "/") {
			return "", false, nil
		}
		return "", false, failure.Usage("%s is a folder here, and may be a service of the hub; write ./%s for the folder, or call leat in another folder", arg, arg)
	}
	return name, true, nil
}

// fromHub returns the service as the hub delivers it.
func (in *input) fromHub(ctx context.Context, name string) (localrender.Service, error) {
	if in.root != "" || in.namespace != "" || in.releaseName != "" || len(in.values)+len(in.set)+len(in.sources) > 0 {
		return localrender.Service{}, failure.Usage("--root, --namespace, --release-name, --values, --set and --source are for what lies here; the hub says it of service/%s", name)
	}
	c, err := in.session.Client()
	if err != nil {
		return localrender.Service{}, err
	}
	planned, err := planOf(ctx, c, name)
	if err != nil {
		return localrender.Service{}, in.session.Fail(err)
	}
	if _, err := kubeapi.ParseVersion(planned.GetKubernetesVersion()); err == nil && in.version == "" {
		in.version = planned.GetKubernetesVersion()
	}
	settings, err := in.settings()
	if err != nil {
		return localrender.Service{}, err
	}
	service, err := localrender.FromPlan(name, planned, downloads(in.session, c, name), settings)
	if errors.Is(err, localrender.ErrNothingDelivered) {
		return service, failure.New(fmt.Sprintf("%v: service/%s", err, name), "leat get service "+name+" says why.")
	}
	return service, err
}

// noticeOf returns the note about the placeholder of secrets. Empty: there is none.
func noticeOf(placeholders []string) string {
	if len(placeholders) == 0 {
		return ""
	}
	first := placeholders[0]
	is := "is rendered as " + localrender.Placeholder(first)
	if len(placeholders) > 1 {
		is = "are rendered as " + localrender.Placeholder(first) + " and so on"
	}
	return fmt.Sprintf("Notice: the hub does not show secrets; %s %s, unless --secret %s=VALUE gives another\n",
		strings.Join(placeholders, ", "), is, first)
}

func planOf(ctx context.Context, c *client.Client, name string) (*fleetv1.GetServicePlanResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	return c.GetServicePlan(ctx, &fleetv1.GetServicePlanRequest{Name: name})
}

// downloads returns how the bundles of a service are downloaded.
func downloads(s *session.Session, c *client.Client, service string) localrender.Download {
	return func(ctx context.Context, digest string) (io.ReadCloser, error) {
		ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
		stream, err := c.DownloadServiceBundle(ctx, &fleetv1.DownloadServiceBundleRequest{Service: service, Digest: digest})
		if err != nil {
			cancel()
			return nil, s.Fail(err)
		}
		return &download{session: s, stream: stream, cancel: cancel}, nil
	}
}

// download reads the chunks of a stream.
type download struct {
	session *session.Session
	stream  *connect.ServerStreamForClient[fleetv1.DownloadServiceBundleResponse]
	cancel  context.CancelFunc
	chunk   []byte // what was not read yet
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.chunk) == 0 {
		if !d.stream.Receive() {
			if err := d.stream.Err(); err != nil {
				return 0, d.session.Fail(err)
			}
			return 0, io.EOF
		}
		d.chunk = d.stream.Msg().GetChunk()
	}
	n := copy(p, d.chunk)
	d.chunk = d.chunk[n:]
	return n, nil
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.cancel()
	return d.stream.Close()
}
