import net.lag.kestrel.config._

new KestrelConfig {
  val shards = 4
  def spool(n: Int) = {
    "/var/spool/kestrel-" + n
  }
  queuePath = spool(shards)
  maxOpenTransactions = shards
  maxItems = 5
  clientTimeout = 90
  memcacheListenPort = "22133"
  default.maxMemorySize = -1.megabytes
  default.maxAge = 100.microseconds
  default.discardOldWhenFull = true
  if (shards > 3) default.maxItems = 10
  zookeeper = new ZooKeeperConfig {
    host = "zk.example.com"
    pathPrefix = "/kestrel/production"
  }
  queues = (1 to shards).map { n =>
    new QueueBuilder { name = "shard" + n }
  }.toList
  aliases = new AliasBuilder {
    name = "a"
    destinationQueues = List("b")
  } :: new AliasBuilder {
    name = "b"
    destinationQueues = List("a")
  } :: new AliasBuilder {
    destinationQueues = List("c")
  }
  beFactoryClass = "net.lag.kestrel.FastBackend"
}
