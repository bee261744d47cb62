package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

const clusterPage = `Usage:
    kestrel cluster COMMAND [flags]

Looks after many servers at once: those that --server lists, that a profile
names, or that announce themselves in ZooKeeper (--server zk://host/path). All
are asked at the same time. A server that does not answer is named on standard
error, the others' figures are printed all the same, and the exit status is 1.

    status [SERVER...]   what each server is and holds; --set changes its status
    items [PATTERN...]   what queues hold on all servers, and where most is
    age [PATTERN...]     how far the consumers of queues are behind, and where
    stale [PATTERN...]   queues that nothing happens to
    flush QUEUE...       discard the items of queues on every server
    quiesce [SERVER...]  have servers take nothing and give nothing
    drain SERVER         take a server out of use without losing an item

Example:
    $ kestrel cluster status --server 10.0.0.5,10.0.0.6,10.0.0.7
    $ kestrel cluster drain 10.0.0.6 --server zk://zk1,zk2/kestrel
`

func newCluster() *cobra.Command {
	group := cli.Group("cluster", "look after many servers at once", clusterPage)
	group.Annotations = map[string]string{kindKey: ""}
	group.AddCommand(newClusterStatus(), newClusterItems(), newClusterAge(), newClusterStale(), newClusterFlush(),
		newClusterQuiesce(), newClusterDrain())
	return group
}
